// A table with no order of its own, whose rows its owner fills.

import { h } from "../lib/dom.js";

/**
 * @param caption what it holds; read out
 * @param heads the columns' names; one of numbers is { number: name }
 */
export function plainTable(caption, heads, ...bodies) {
  return h(
    "table",
    { classes: "tight" },
    h("caption", { classes: "unseen" }, caption),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        heads.map((head) => h("th", { scope: "col", classes: head.number ? "number" : null }, head.number ?? head)),
      ),
    ),
    bodies,
  );
}

/** The same where it may be wider than the page. */
export function wideTable(label, ...table) {
  return h("div", { classes: "scroll", role: "region", tabindex: "0", "aria-label": label }, plainTable(...table));
}
