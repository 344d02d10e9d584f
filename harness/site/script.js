"use strict";
for (const board of document.querySelectorAll(".board")) {
  const controls = board.querySelector(".controls");
  const body = board.querySelector("tbody");
  const rows = [...body.rows];
  const heads = [...board.querySelectorAll("th[data-better]")];
  const filters = [...controls.querySelectorAll("[data-filter]")];
  const sort = controls.querySelector("[data-sort]");
  const all = controls.querySelector("[data-all]");
  let reversed = false;

  const value = (row, column) => {
    const cell = row.querySelectorAll("td.number")[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : null;
  };

  const sorted = () => {
    if (sort.value === "") return rows;
    const column = Number(sort.value);
    const better = heads[column].dataset.better;
    const merit = (number) => (better === "near zero" ? Math.abs(number) : number);
    const sign = (better === "higher" ? -1 : 1) * (reversed ? -1 : 1);
    const known = rows.filter((row) => value(row, column) !== null);
    const unknown = rows.filter((row) => value(row, column) === null);
    known.sort((a, b) => sign * (merit(value(a, column)) - merit(value(b, column))));
    heads[column].ariaSort = sign > 0 ? "ascending" : "descending";
    return [...known, ...unknown];
  };

  const show = () => {
    for (const head of heads) head.ariaSort = null;
    body.append(...sorted());
    for (const row of rows) {
      // A row without a name of this kind, such as a strategy without a PRM, is always shown.
      row.hidden = filters.some((each) => each.value && row.dataset[each.dataset.filter] && row.dataset[each.dataset.filter] !== each.value);
    }
    board.classList.toggle("all", all.checked);
    const left = rows.filter((row) => !row.hidden).length;
    controls.querySelector("output").textContent = `${left} of ${rows.length} cells`;
  };

  controls.addEventListener("change", (event) => {
    if (event.target === sort) reversed = false;
    show();
  });
  controls.addEventListener("submit", (event) => event.preventDefault());
  for (const head of heads) {
    head.querySelector("button").addEventListener("click", (event) => {
      const column = event.currentTarget.dataset.column;
      reversed = sort.value === column && !reversed;
      sort.value = column;
      show();
    });
  }
  controls.hidden = false;
  show();
}
