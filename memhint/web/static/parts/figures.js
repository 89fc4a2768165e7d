// Key figures: a name, a value, and what it is of.

import { fill, h } from "../lib/dom.js";
import { UNKNOWN } from "../lib/units.js";

/** A list of figures that keeps its elements. `update([{name, value, note, title, kind}])` */
export function figures(label) {
  const element = h("dl", { classes: "figures", "aria-label": label });
  let shown = "";
  return {
    element,
    update(items) {
      const text = JSON.stringify(items);
      if (text === shown) return;
      shown = text;
      fill(
        element,
        items.map(({ name, value, note, title, kind }) =>
          h(
            "div",
            { classes: `figure ${kind ?? ""}`, title },
            h("dt", null, name),
            h("dd", { classes: value === UNKNOWN ? "unknown" : null }, value, note ? h("small", null, note) : null),
          ),
        ),
      );
    },
  };
}
