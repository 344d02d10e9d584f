// The boards of a page. A row is named by the address, as in #calibration.row=CELL.
const boards = [...document.querySelectorAll("[data-table]")].map((root) => {
  const data = JSON.parse(document.getElementById(`${root.dataset.table}-data`).textContent);
  const table = document.createElement("table");
  table.className = "display compact";
  table.setAttribute("aria-label", data.title);
  const legend = document.createElement("p");
  legend.className = "legend";
  legend.textContent = data.legend;
  root.classList.add("leaderboard");
  root.append(table, legend);
  const { dt } = new ITable(table, {
    ...data.options,
    createdRow: (row, _, place) => {
      if (data.cells.length) row.dataset.cell = data.cells[place];
    },
  });
  const scroll = table.parentElement;
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", `Rows: ${data.title}`);
  const mark = () => {
    const wanted = new URLSearchParams(location.hash.slice(1)).get(`${root.dataset.table}.row`);
    const place = data.cells.indexOf(wanted);
    for (const row of table.querySelectorAll("[aria-current]")) row.removeAttribute("aria-current");
    if (place < 0) return;
    if (!dt.rows({ search: "applied" }).indexes().toArray().includes(place)) dt.search("").draw();
    const order = dt.rows({ order: "current", search: "applied" }).indexes().toArray();
    dt.page(Math.floor(order.indexOf(place) / dt.page.len())).draw("page");
    const row = dt.row(place).node();
    row.setAttribute("aria-current", "true");
    row.scrollIntoView({ block: "center" });
  };
  mark();
  return mark;
});
addEventListener("hashchange", () => boards.forEach((mark) => mark()));
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark", dark.matches);
dark.addEventListener("change", paint);
paint();
