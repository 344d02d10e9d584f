"use strict";

/**
 * Show a leaderboard as a table that sorts, searches, filters and turns pages in the browser.
 *
 * `root` is an empty element. `table` is TableData of table.py. `host` belongs to the page:
 *   read()            the state of the table in the address: an object with a list of texts for each name
 *   write(state)      writes such a state into the address; an empty list removes a name from it
 *   link(cell, name, first)  the address behind a name of a row, or null; `name` is the column, such as "calibrator", and
 *                     `first` says whether it is the first one
 *   compare(a, b)     the address of the comparison of two cells; without this function no rows can be ticked
 *
 * Returns { update(table), restore() }: show another table, or the state of the address, in the same place.
 */
function mountTable(root, table, host) {
  const ROWS = 50; // of a page
  const GAP = 4; // pixels between a button and what it opens
  const own = { sort: "", search: "", columns: null, only: {}, tier: "", page: 1, row: "", ticked: [] };
  let shown = []; // rows in their order, after the search and the filters
  let drawn = ""; // the columns of the head

  const element = (tag, properties = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  };

  /* Things that open over the page: definitions, filters and the columns. */

  const place = (panel, anchor) => {
    const box = anchor.getBoundingClientRect();
    const width = Math.min(panel.offsetWidth, window.innerWidth - 2 * GAP);
    panel.style.left = `${Math.max(GAP, Math.min(box.left, window.innerWidth - width - GAP))}px`;
    panel.style.top = `${Math.max(GAP, Math.min(box.bottom + GAP, window.innerHeight - panel.offsetHeight - GAP))}px`;
  };
  const tip = element("div", { class: "tip", popover: "auto", role: "tooltip" });
  const open = (panel, anchor) => {
    if (!panel.matches(":popover-open")) panel.showPopover();
    place(panel, anchor);
  };
  const panelButton = (label, fill) => {
    const panel = element("div", { class: "panel", popover: "auto", role: "group", "aria-label": label });
    const button = element("button", { type: "button", class: "open", "aria-expanded": "false" }, label);
    button.popoverTargetElement = panel;
    panel.addEventListener("toggle", (event) => {
      button.setAttribute("aria-expanded", String(event.newState === "open"));
    });
    panel.addEventListener("beforetoggle", (event) => {
      if (event.newState === "open") {
        panel.replaceChildren(...fill());
        requestAnimationFrame(() => place(panel, button));
      }
    });
    return { button, panel };
  };
  const check = (text, checked, change) =>
    element("label", {}, element("input", { type: "checkbox", checked, onchange: change }), ` ${text}`);

  /* The fixed parts. */

  const search = element("input", { type: "search", placeholder: "names, such as isotonic", autocomplete: "off" });
  const filters = element("div", { class: "filters" });
  const tier = element("select", { onchange: () => choose({ tier: tier.value }) });
  const tiers = element("label", { class: "tiers" }, "", tier);
  const columns = panelButton("Columns", () => [
    ...table.metrics.map((metric) =>
      check(metric.title, visible().includes(metric), (event) => {
        const names = visible().map((each) => each.name).filter((name) => name !== metric.name);
        if (event.target.checked) names.push(metric.name);
        choose({ columns: names });
      }),
    ),
    element("button", { type: "button", onclick: () => everyColumn(table.metrics.map((each) => each.name)) }, "All"),
    element("button", { type: "button", onclick: () => everyColumn(null) }, "Default"),
  ]);
  const everyColumn = (names) => {
    choose({ columns: names });
    columns.panel.hidePopover();
  };
  const count = element("output", { class: "count" });
  const compare = element("span", { class: "compare", role: "status" });
  const head = element("thead");
  const body = element("tbody");
  const grid = element("table", {}, head, body);
  const scroll = element("div", { class: "scroll", tabindex: "0", role: "region" }, grid);
  const turn = (by) => () => {
    choose({ page: own.page + by }, false);
    scroll.scrollTop = 0;
  };
  const back = element("button", { type: "button", onclick: turn(-1) }, "Previous");
  const next = element("button", { type: "button", onclick: turn(1) }, "Next");
  const pager = element("nav", { class: "pager" }, back, element("span"), next);
  const legend = element("p", { class: "legend" });
  root.classList.add("leaderboard");
  root.replaceChildren(
    element("div", { class: "bar" }, element("label", {}, "Search ", search), filters, tiers, columns.button, columns.panel, count, compare),
    scroll,
    pager,
    legend,
    tip,
  );
  search.addEventListener("input", () => choose({ search: search.value }));

  /* State: in this object and in the address. */

  const visible = () => table.metrics.filter((each) => (own.columns ? own.columns.includes(each.name) : each.main));

  const restore = () => {
    const state = host.read();
    const first = (name) => state[name]?.[0] ?? "";
    const titles = table.metrics.map((each) => each.name);
    const sortable = [...titles, ...table.names.map((each) => each.name)];
    own.sort = sortable.includes(first("sort").replace(/^-/, "")) ? first("sort") : "";
    own.search = first("search");
    own.columns = state.columns?.length ? titles.filter((name) => state.columns.includes(name)) : null;
    own.page = Math.max(1, Number.parseInt(first("page") || "1", 10) || 1);
    own.row = table.cells.includes(first("row")) ? first("row") : "";
    own.tier = table.provenance?.tiers.includes(first("tier")) ? first("tier") : "";
    tier.value = own.tier;
    own.only = {};
    for (const each of table.names) {
      const chosen = each.values.filter((value) => each.filter && state[each.filter]?.includes(value));
      if (chosen.length) own.only[each.name] = chosen;
    }
    if (search.value !== own.search) search.value = own.search;
    sorted();
    const place = own.row ? shown.indexOf(table.cells.indexOf(own.row)) : -1;
    if (place >= 0) own.page = 1 + Math.floor(place / ROWS);
    draw();
    if (place >= 0) body.querySelector("[aria-current]").scrollIntoView({ block: "center" });
  };

  const choose = (changes, again = true) => {
    Object.assign(own, { row: "" }, again ? { page: 1 } : {}, changes);
    if (again) sorted();
    draw();
    const state = {
      sort: own.sort ? [own.sort] : [],
      search: own.search ? [own.search] : [],
      columns: own.columns === null ? [] : own.columns.length ? own.columns : ["none"],
      page: own.page > 1 ? [String(own.page)] : [],
      row: own.row ? [own.row] : [],
      tier: own.tier ? [own.tier] : [],
    };
    for (const each of table.names) if (each.filter) state[each.filter] = own.only[each.name] ?? [];
    host.write(state);
  };

  /* Rows: which, and in which order. */

  const nameOf = (column, row) => (column.codes[row] < 0 ? "" : column.values[column.codes[row]]);
  const titled = (column, name) => (column.filter ? name : `${column.title}=${name}`);

  const named = (row) =>
    table.names.filter((column) => column.codes[row] >= 0).map((column) => titled(column, nameOf(column, row)));

  const sorted = () => {
    const words = own.search.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = Object.entries(own.only).map(([name, chosen]) => [table.names.find((each) => each.name === name), chosen]);
    const lowest = own.tier ? table.provenance.tiers.indexOf(own.tier) : -1;
    shown = [...table.cells.keys()].filter((row) => {
      if (lowest >= 0 && table.provenance.tier[row] < lowest) return false;
      // A row without a name of this kind, such as a strategy without a PRM, is a baseline for all of them.
      if (!kept.every(([column, chosen]) => column.codes[row] < 0 || chosen.includes(nameOf(column, row)))) return false;
      if (!words.length) return true;
      const text = `${named(row).join(" ")} ${table.numbers[row]} `.toLowerCase();
      return words.every((word) => text.includes(/^#\d+$/.test(word) ? ` ${word} ` : word));
    });
    if (!own.sort) return;
    const name = own.sort.replace(/^-/, "");
    const metric = table.metrics.find((each) => each.name === name);
    const codes = table.names.find((each) => each.name === name)?.codes;
    const rank = metric ? (row) => metric.place[row] : (row) => (codes[row] < 0 ? null : codes[row]);
    const sign = own.sort.startsWith("-") ? -1 : 1;
    const missing = (row) => rank(row) === null;
    shown.sort((a, b) => missing(a) - missing(b) || (missing(a) ? 0 : sign * (rank(a) - rank(b))) || a - b);
  };

  const sortBy = (name) => {
    choose({ sort: own.sort === name ? `-${name}` : own.sort === `-${name}` ? "" : name });
  };

  /* Drawing. */

  const used = () =>
    table.names.filter((column, place) => place === 0 || new Set(column.codes).size > 1);

  const drawHead = () => {
    const about = (metric) => {
      const text = [metric.description, metric.better && `${metric.better[0].toUpperCase()}${metric.better.slice(1)}.`].filter(Boolean).join(" ");
      const show = (event) => {
        tip.textContent = text;
        open(tip, event.currentTarget);
      };
      return element(
        "button",
        {
          type: "button",
          class: "about",
          "aria-label": `${metric.title}: ${text}`,
          onclick: show,
          onpointerenter: (event) => event.pointerType === "mouse" && show(event),
          onpointerleave: (event) => event.pointerType === "mouse" && tip.hidePopover(),
        },
        "?",
      );
    };
    const column = (each, isMetric) =>
      element(
        "th",
        { scope: "col", class: isMetric || each === used()[0] ? null : "coordinate", "data-name": each.name },
        element("span", {}, element("button", { type: "button", class: "sort", onclick: () => sortBy(each.name) }, each.title), isMetric && each.description ? about(each) : null),
        isMetric && each.better ? element("small", {}, each.better) : "",
      );
    head.replaceChildren(
      element(
        "tr",
        {},
        ...used().map((each) => column(each, false)),
        ...visible().map((each) => column(each, true)),
        ...table.counts.map((each) => element("th", { scope: "col", class: "number" }, each.title)),
      ),
    );
  };

  const scales = new Map();
  const scaleOf = (metric) => {
    if (!scales.has(metric.name)) {
      const ends = [metric.low, metric.high, metric.value].flat().filter((text) => text !== null).map(toNumber);
      const low = ends.reduce((a, b) => Math.min(a, b), Infinity);
      scales.set(metric.name, { low, span: ends.reduce((a, b) => Math.max(a, b), -Infinity) - low || 1 });
    }
    return scales.get(metric.name);
  };
  const toNumber = (text) => Number(text.replace("\u2212", "-").replaceAll(",", ""));

  const valueCell = (metric, row) => {
    const value = metric.value[row];
    if (value === null) return element("td", {}, "\u2013");
    const [low, high] = [metric.low[row], metric.high[row]];
    const best = metric.best.has(row);
    const text = metric.marks[row] ? `${value} ${metric.marks[row]}` : value;
    const parts = [element(best ? "strong" : "span", { class: "value" }, text)];
    if (low !== null) {
      const scale = scaleOf(metric);
      const at = (end) => `${(100 * (toNumber(end) - scale.low)) / scale.span}%`;
      const bar = element("span", { class: "interval-bar", "aria-hidden": "true" });
      for (const [name, end] of Object.entries({ low, high, value })) bar.style.setProperty(`--at-${name}`, at(end));
      if (scale.low < 0 && scale.low + scale.span > 0) bar.style.setProperty("--at-zero", at("0"));
      parts.push(" ", element("span", { class: "interval" }, `[${low}, ${high}]`), bar);
    }
    return element("td", {}, element("div", { class: "estimate" }, ...parts));
  };

  // What of a row is not current, behind a button with the command that renews it.
  const outdatedNote = (row) => {
    const reason = table.provenance?.outdated[row];
    if (reason === undefined) return null;
    const show = (event) => {
      tip.replaceChildren(
        element("p", {}, `Not current: ${reason}.`),
        element("p", {}, "To measure it again, with the grid of its submission:"),
        element("code", {}, table.provenance.renewals[row]),
      );
      open(tip, event.currentTarget);
    };
    return element("button", { type: "button", class: "note", onclick: show }, "not current");
  };

  const drawRow = (names, metrics, row) => {
    const cell = table.cells[row];
    const note = outdatedNote(row);
    const label = named(row).join(", ");
    const content = (column, first) => {
      const name = nameOf(column, row);
      const address = name ? host.link(cell, column.name, first) : null;
      return address === null ? name || "\u2013" : element("a", { href: address }, name);
    };
    const made = element("tr", {
      "data-cell": cell,
      "aria-current": cell === own.row ? "true" : null,
      class: note ? "outdated" : null,
    });
    const tick = host.compare
      ? element("input", {
          type: "checkbox",
          "aria-label": `Compare ${label}`,
          checked: own.ticked.includes(cell),
          onchange: (event) => {
            own.ticked = own.ticked.filter((each) => each !== cell);
            if (event.target.checked) own.ticked = [...own.ticked, cell].slice(-2);
            drawTicks();
          },
        })
      : null;
    const [first, ...others] = names;
    const where = others
      .filter((column) => nameOf(column, row))
      .flatMap((column, place) => [place ? ", " : "", titled(column, ""), content(column, false)]);
    made.append(
      element(
        "th",
        { scope: "row" },
        tick,
        content(first, true),
        element("small", {}, ` ${table.numbers[row]}`),
        note,
        element("small", { class: "where" }, ...where), // instead of the columns, where there is no room for them
        table.provenance ? element("small", { class: "verified" }, table.provenance.verified[row]) : null,
      ),
      ...others.map((column) => element("td", { class: "coordinate" }, content(column, false))),
    );
    const reason = table.reasons[row];
    if (reason !== undefined) {
      made.append(element("td", { class: "reason", colspan: metrics.length + table.counts.length }, reason));
    } else {
      made.append(
        ...metrics.map((metric) => valueCell(metric, row)),
        ...table.counts.map((each) => element("td", { class: "number" }, each.values[row])),
      );
    }
    return made;
  };

  const drawTicks = () => {
    for (const box of body.querySelectorAll("th input")) {
      box.checked = own.ticked.includes(box.closest("tr").dataset.cell);
    }
    compare.replaceChildren(
      own.ticked.length === 2 ? element("a", { href: host.compare(...own.ticked) }, "Compare the two ticked rows") : own.ticked.length ? "Tick one more row to compare" : "",
    );
  };

  const drawFilters = () => {
    const offered = used().filter((column) => column.filter && column.values.length > 1);
    filters.replaceChildren(
      ...offered.flatMap((column) => {
        const filter = panelButton(column.title, () =>
          column.values.map((value) =>
            check(value, own.only[column.name]?.includes(value), (event) => {
              const others = (own.only[column.name] ?? []).filter((each) => each !== value);
              const chosen = event.target.checked ? [...others, value] : others;
              choose({ only: { ...own.only, [column.name]: chosen.length ? chosen : undefined } });
            }),
          ),
        );
        filter.button.dataset.filter = column.name;
        return [filter.button, filter.panel];
      }),
    );
  };

  const draw = () => {
    const names = used();
    const metrics = visible();
    const pages = Math.max(1, Math.ceil(shown.length / ROWS));
    own.page = Math.min(Math.max(own.page, 1), pages);
    own.only = Object.fromEntries(Object.entries(own.only).filter(([, chosen]) => chosen));
    const layout = JSON.stringify([names.map((each) => each.name), metrics.map((each) => each.name)]);
    if (layout !== drawn) drawHead();
    drawn = layout;
    for (const cell of head.querySelectorAll("th[data-name]")) {
      const reverse = own.sort === `-${cell.dataset.name}`;
      const first = table.metrics.find((each) => each.name === cell.dataset.name)?.first ?? "ascending";
      const order = reverse === (first === "ascending") ? "descending" : "ascending";
      if (own.sort.replace(/^-/, "") === cell.dataset.name) cell.setAttribute("aria-sort", order);
      else cell.removeAttribute("aria-sort");
    }
    const start = ROWS * (own.page - 1);
    const rows = shown.slice(start, start + ROWS);
    body.replaceChildren(...rows.map((row) => drawRow(names, metrics, row)));
    for (const button of filters.querySelectorAll("[data-filter]")) {
      const chosen = own.only[button.dataset.filter];
      const title = table.names.find((each) => each.name === button.dataset.filter).title;
      button.textContent = chosen ? `${title}: ${chosen.length > 2 ? chosen.length : chosen.join(", ")}` : title;
    }
    const all = table.cells.length;
    count.textContent = shown.length === all ? `${all.toLocaleString("en")} rows` : `${shown.length.toLocaleString("en")} of ${all.toLocaleString("en")} rows`;
    pager.hidden = pages === 1;
    pager.children[1].textContent = `Rows ${(start + 1).toLocaleString("en")} to ${(start + rows.length).toLocaleString("en")} of ${shown.length.toLocaleString("en")}`;
    back.disabled = own.page === 1;
    next.disabled = own.page === pages;
    if (host.compare) drawTicks();
  };

  const update = (fresh) => {
    table = { ...fresh, metrics: fresh.metrics.map((each) => ({ ...each, best: new Set(each.best) })) };
    scales.clear();
    drawn = "";
    own.ticked = own.ticked.filter((cell) => table.cells.includes(cell));
    scroll.setAttribute("aria-label", `Rows: ${table.title}`);
    pager.setAttribute("aria-label", `Pages: ${table.title}`);
    root.classList.toggle("many", used().length > 5);
    const same = table.names.filter((column) => !used().includes(column) && column.values.length);
    legend.textContent = `${same.map((column) => `${column.title}: ${column.values[0]}. `).join("")}${table.legend}`;
    drawFilters();
    tiers.hidden = !table.provenance;
    tiers.firstChild.textContent = `${table.provenance?.title ?? ""} `;
    tier.replaceChildren(
      ...(table.provenance?.choices ?? []).map((choice, place) =>
        element("option", { value: place ? table.provenance.tiers[place - 1] : "" }, choice),
      ),
    );
    restore();
  };

  update(table);
  return { update, restore };
}
