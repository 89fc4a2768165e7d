// A VM's memory as one stacked bar. Each kind has its colour and its pattern; the figures are its name.

import { h } from "../lib/dom.js";
import { KINDS } from "../lib/words.js";
import { known, memory } from "../lib/units.js";

/** Bytes by kind; together they are `assigned`. What is unknown stays in the kind that holds it. */
export function split(domain) {
  const assigned = domain.assigned ?? 0;
  let left = assigned;
  const take = (bytes) => {
    const taken = Math.max(0, Math.min(left, bytes ?? 0));
    left -= taken;
    return taken;
  };
  const resident = take(domain.resident);
  const unreported = Math.min(resident, domain.unreported ?? 0);
  const shared = take(domain.shared);
  const swapped = take(domain.swap);
  const reported = take(domain.reported);
  return { used: resident - unreported, unreported, shared, swapped, reported, rest: left };
}

/** @param largest the assigned memory that fills the whole width */
export function memoryBar(domain, largest) {
  const parts = split(domain);
  const text = ["resident", "unreported", "reported", "shared"].map((key) => `${key} ${memory(domain[key])}`);
  const label = `${memory(domain.assigned)} assigned: ${text.join(", ")}`;
  const bar = h("div", { classes: "bar", role: "img", "aria-label": label, title: label });
  if (!known(domain.unreported)) bar.classList.add("inside-unknown");
  for (const [kind] of KINDS) {
    if (!parts[kind]) continue;
    const piece = h("span", { classes: `piece ${kind}` });
    piece.style.flexGrow = String(parts[kind]);
    bar.append(piece);
  }
  bar.style.width = `${largest ? Math.max(2, (100 * (domain.assigned ?? 0)) / largest) : 100}%`;
  return h("div", { classes: "bar-place" }, bar);
}

export function memoryLegend() {
  return h(
    "ul",
    { classes: "legend", "aria-label": "What the bars show" },
    KINDS.map(([kind, name, meaning]) =>
      h("li", { title: meaning }, h("span", { classes: `piece ${kind}`, "aria-hidden": "true" }), name),
    ),
  );
}
