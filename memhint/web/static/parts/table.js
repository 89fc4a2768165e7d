// A sortable table whose rows are kept by key: an update changes only the cells whose text changed.

import { fill, h, keepFocus } from "../lib/dom.js";
import { known } from "../lib/units.js";

/**
 * @param caption what the table holds; read out, and shown unless `quiet`
 * @param columns [{key, label, unit?, title?, number?, prose?, value?(row), text(row), show?(row), sortable?}]: `text` decides whether
 *   a cell has changed, `show` gives its nodes where text alone is not enough. The first column heads its row.
 * @param id gives a row's key
 * @param sort {key, descending} or null
 * @param onSort called with the new sort; without it rows are sorted here
 */
export function dataTable({
  caption,
  quiet = true,
  columns,
  id,
  sort = null,
  onSort = null,
  empty = "Nothing to show.",
}) {
  const body = h("tbody");
  const heads = new Map();
  const rows = new Map();
  let current = [];
  let order = sort;

  const head = h(
    "tr",
    null,
    columns.map((column) => {
      const sortable = column.sortable !== false;
      const label = sortable
        ? h(
            "button",
            { type: "button", onclick: () => choose(column) },
            h("span", { classes: "arrow", "aria-hidden": "true" }),
            column.label,
          )
        : h("span", null, column.label);
      const unit = column.unit ? h("span", { classes: "unit" }, column.unit) : null;
      const cell = h(
        "th",
        { scope: "col", classes: column.number ? "number" : null, title: column.title },
        label,
        unit,
      );
      heads.set(column.key, cell);
      return cell;
    }),
  );
  const nothing = h("p", { classes: "empty", hidden: true }, empty);
  const table = h(
    "table",
    null,
    h("caption", { classes: quiet ? "unseen" : null }, caption),
    h("thead", null, head),
    body,
  );
  const element = h(
    "div",
    { classes: "table" },
    h("div", { classes: "scroll", role: "region", tabindex: "0", "aria-label": `${caption}, table` }, table),
    nothing,
  );

  function choose(column) {
    const same = order?.key === column.key;
    order = { key: column.key, descending: same ? !order.descending : Boolean(column.number) };
    mark();
    if (onSort) onSort(order);
    else draw();
  }

  function mark() {
    for (const [key, cell] of heads) {
      const sorted = order?.key === key;
      if (sorted) cell.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
      const arrow = cell.querySelector(".arrow");
      if (arrow) arrow.textContent = sorted ? (order.descending ? "▼" : "▲") : "";
    }
  }

  function sorted() {
    const column = !onSort && order && columns.find((one) => one.key === order.key);
    if (!column) return current;
    const value = column.value ?? column.text;
    const sign = order.descending ? -1 : 1;
    return [...current].sort((a, b) => compare(value(a), value(b), sign) || compare(id(a), id(b), 1));
  }

  function place(next) {
    let at = body.firstElementChild;
    for (const row of next) {
      const key = id(row);
      let kept = rows.get(key);
      if (!kept) {
        kept = { element: h("tr"), texts: [], cells: [] };
        columns.forEach((column, index) => {
          const cell = index === 0 ? h("th", { scope: "row" }) : h("td");
          cell.className = column.number ? "number" : column.prose ? "prose" : "";
          kept.cells.push(cell);
          kept.element.append(cell);
        });
        rows.set(key, kept);
      }
      columns.forEach((column, index) => {
        const text = column.text(row);
        if (kept.texts[index] === text) return;
        kept.texts[index] = text;
        const cell = kept.cells[index];
        if (column.show) fill(cell, column.show(row));
        else cell.textContent = text;
        if (column.number) cell.classList.toggle("unknown", text === "unknown");
      });
      if (kept.element === at) at = at.nextElementSibling;
      else body.insertBefore(kept.element, at);
    }
  }

  function draw() {
    const next = sorted();
    const wanted = new Set(next.map(id));
    for (const [key, kept] of rows) {
      if (wanted.has(key)) continue;
      kept.element.remove();
      rows.delete(key);
    }
    keepFocus(body, () => place(next));
    nothing.hidden = current.length > 0;
    table.hidden = current.length === 0;
  }

  mark();
  return {
    element,
    update(next) {
      current = next;
      draw();
    },
  };
}

/** Unknown comes last, whichever way the rest is sorted. */
export function compare(a, b, sign) {
  if (!known(a) || !known(b)) return known(a) ? -1 : known(b) ? 1 : 0;
  if (typeof a === "string") return sign * a.localeCompare(b, "en", { numeric: true });
  return sign * (a - b);
}
