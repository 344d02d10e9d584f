// The tables of a page sort by a click on a head and search by words. A row is named by the address, as in
// #calibration.row=CELL.
const boards = [...document.querySelectorAll("[data-table]")].map((root) => {
  const body = root.querySelector("tbody");
  const rows = [...body.rows];
  const heads = [...root.querySelectorAll("thead th")];
  const field = root.querySelector("input[type=search]");
  let column = -1;
  let sign = 1;
  const compare = (one, other) => {
    const [a, b] = [one, other].map((row) => row.cells[column]);
    if (a.dataset.number === undefined && b.dataset.number === undefined)
      return sign * a.textContent.localeCompare(b.textContent);
    const [x, y] = [a, b].map((cell) => parseFloat(cell.dataset.number));
    return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) : sign * (x - y);
  };
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    const shown = rows.filter((row) => words.every((word) => row.textContent.toLowerCase().includes(word)));
    body.replaceChildren(...(column < 0 ? shown : shown.sort(compare)));
  };
  heads.forEach((head, place) => {
    head.addEventListener("click", () => {
      sign = column === place ? -sign : 1;
      column = place;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      show();
    });
  });
  field.addEventListener("input", show);
  const mark = () => {
    const wanted = new URLSearchParams(location.hash.slice(1)).get(`${root.dataset.table}.row`);
    for (const row of rows) row.removeAttribute("aria-current");
    const row = rows.find((row) => row.dataset.cell === wanted);
    if (!row) return;
    if (!row.isConnected) {
      field.value = "";
      show();
    }
    row.setAttribute("aria-current", "true");
    row.scrollIntoView({ block: "center" });
  };
  mark();
  return mark;
});
addEventListener("hashchange", () => boards.forEach((mark) => mark()));
