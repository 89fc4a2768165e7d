// A part of a page with a heading of its own.

import { h } from "../lib/dom.js";

/** @param more what stands beside the heading */
export function panel(id, heading, more, ...children) {
  return h(
    "section",
    { classes: "panel", "aria-labelledby": `${id}-heading` },
    h("div", { classes: "panel-head" }, h("h2", { id: `${id}-heading` }, heading), more),
    children,
  );
}
