// The tables of a page of the site. Their states are in the address: #calibration.sort=brier&scaling.search=ias
const states = () => [...new URLSearchParams(location.hash.slice(1))].filter(([name]) => name.includes("."));
const tables = [...document.querySelectorAll("[data-table]")].map((root) => {
  const own = `${root.dataset.table}.`;
  const host = {
    read: () => {
      const state = {};
      for (const [name, value] of states()) if (name.startsWith(own)) (state[name.slice(own.length)] ??= []).push(value);
      return state;
    },
    write: (state) => {
      const others = states().filter(([name]) => !name.startsWith(own));
      const chosen = Object.entries(state).flatMap(([name, values]) => values.map((value) => [own + name, value]));
      const hash = String(new URLSearchParams([...others, ...chosen]));
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    },
    // The first name of a row is a link to the row itself.
    link: (cell, name, first) => (first && cell ? `#${own}row=${encodeURIComponent(cell)}` : null),
  };
  return mountTable(root, JSON.parse(document.getElementById(`${root.dataset.table}-data`).textContent), host);
});
addEventListener("hashchange", () => {
  if (states().length) for (const table of tables) table.restore();
});
