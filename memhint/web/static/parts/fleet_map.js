// Every host as a cell: a colour for how much, a figure for how many, a pattern and a letter for trouble.

import { h, keepFocus } from "../lib/dom.js";
import { to } from "../lib/route.js";
import { counted, gib, known, memory, percent } from "../lib/units.js";

const share = (part, whole) => (known(part) && whole ? part / whole : null);
const step = (value, limits) => (value === null ? "none" : limits.filter((limit) => value >= limit).length);

/** What a map can show: a level 0 to 5 for the colour, a short figure, and what the levels mean. */
export const METRICS = {
  headroom: {
    name: "Headroom",
    figure: "how many more VMs fit",
    level: (host) => step(share(host.headroom, host.pool), [0.001, 0.05, 0.1, 0.2, 0.35]),
    text: (host) => (known(host.slots) ? String(host.slots) : "?"),
    legend: ["none", "below 5 %", "5 %", "10 %", "20 %", "35 % of memory and more"],
  },
  pressure: {
    name: "Pressure",
    figure: "percent of time that tasks wait for memory",
    level: (host) => step(host.psi ?? null, [0.1, 1, 5, 10, 25]),
    text: (host) => (known(host.psi) ? String(Math.round(host.psi)) : "?"),
    legend: ["none", "below 1 %", "1 %", "5 %", "10 %", "25 % and more"],
  },
  unreported: {
    name: "Unreported memory",
    figure: "GiB free in guests that the host still holds",
    level: (host) => step(share(host.unreported, host.pool), [0.01, 0.03, 0.06, 0.1, 0.2]),
    text: (host) => (known(host.unreported) ? gib(host.unreported, 0) : "?"),
    legend: ["below 1 %", "1 %", "3 %", "6 %", "10 %", "20 % of memory and more"],
  },
};

/** "silent", "stale", "pressed", "closed" or "": what is drawn as a pattern and a letter. */
export function trouble(host) {
  if (host.state !== "fresh") return host.state;
  if (host.rungs?.length) return "pressed";
  return host.admitting === false ? "closed" : "";
}

export const TROUBLE = {
  silent: ["×", "silent"],
  stale: ["~", "stale report"],
  pressed: ["▲", "under pressure: on the ladder"],
  closed: ["–", "admits no VM"],
};

/** A host in a sentence: the cell's name for screen readers, and the line under the map. */
function inWords(host) {
  const sign = trouble(host);
  return [
    host.name,
    sign ? TROUBLE[sign][1] : "fresh",
    `headroom ${memory(host.headroom)} of ${memory(host.pool)}`,
    `${counted(host.slots, "more VM", "more VMs")} of ${memory(host.slot)}`,
    `pressure ${percent(host.psi)}`,
    `unreported ${memory(host.unreported)}`,
    host.rungs?.length ? `rungs ${host.rungs.join(", ")}` : null,
  ]
    .filter(Boolean)
    .join(" · ");
}

/** `update(hosts, metric)`: hosts in the order in which they are shown. */
export function fleetMap() {
  const cells = new Map();
  const readout = h("p", { classes: "readout", "aria-hidden": "true" });
  const rest = "Point at a host, or move with the arrow keys. Enter opens it.";
  readout.textContent = rest;
  const grid = h("div", {
    classes: "map",
    role: "group",
    "aria-label": "Map of hosts. Arrow keys move, Enter opens a host. The same is there as a table.",
  });
  const element = h("div", { classes: "map-place" }, grid, readout);
  let active = null;

  const show = (event) => {
    const cell = event.target.closest?.("a");
    readout.textContent = cell ? cell.getAttribute("aria-label") : rest;
  };
  grid.addEventListener("mouseover", show);
  grid.addEventListener("mouseleave", () => (readout.textContent = rest));
  grid.addEventListener("focusin", (event) => {
    activate(event.target.closest("a"));
    show(event);
  });
  grid.addEventListener("keydown", (event) => {
    const all = [...grid.children];
    const at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const wide = perRow(all);
    const next = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      ArrowDown: at + wide,
      ArrowUp: at - wide,
      Home: 0,
      End: all.length - 1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    all[next]?.focus();
  });

  function activate(cell) {
    if (!cell || cell === active) return;
    active?.setAttribute("tabindex", "-1");
    active = cell;
    active.setAttribute("tabindex", "0");
  }

  function paint(kept, host, metric) {
    const { level, text } = METRICS[metric];
    const sign = trouble(host);
    const mark = sign === "pressed" ? `▲${host.rungs.length}` : sign ? TROUBLE[sign][0] : text(host);
    const plain = sign === "" || sign === "closed"; // what is drawn as a pattern has no level to show
    const classes = plain ? `cell ${metric} l${level(host)} ${sign}` : `cell ${sign}`;
    const label = inWords(host);
    if (kept.label === label && kept.classes === classes && kept.mark === mark) return;
    Object.assign(kept, { label, classes, mark });
    kept.element.className = classes;
    kept.element.textContent = mark;
    kept.element.setAttribute("aria-label", label);
    if (kept.element === document.activeElement) readout.textContent = label;
  }

  function place(hosts, metric) {
    let at = grid.firstElementChild;
    for (const host of hosts) {
      let kept = cells.get(host.name);
      if (!kept) {
        kept = { element: h("a", { href: to("hosts", host.name), tabindex: "-1", "data-host": host.name }) };
        cells.set(host.name, kept);
      }
      paint(kept, host, metric);
      if (kept.element === at) at = at.nextElementSibling;
      else grid.insertBefore(kept.element, at);
    }
  }

  return {
    element,
    update(hosts, metric) {
      grid.dataset.size = hosts.length > 400 ? "small" : hosts.length > 60 ? "middle" : "large";
      const wanted = new Set(hosts.map((host) => host.name));
      for (const [name, kept] of cells) {
        if (wanted.has(name)) continue;
        if (kept.element === active) active = null;
        kept.element.remove();
        cells.delete(name);
      }
      keepFocus(grid, () => place(hosts, metric));
      if (!active) activate(grid.firstElementChild);
    },
  };
}

function perRow(all) {
  const top = all[0].offsetTop;
  const second = all.findIndex((cell) => cell.offsetTop > top);
  return second < 0 ? all.length : second;
}

export function mapLegend(metric) {
  const { legend, figure } = METRICS[metric];
  return h(
    "ul",
    { classes: "legend", "aria-label": "What the cells show" },
    legend.map((text, level) =>
      h("li", null, h("span", { classes: `cell ${metric} l${level}`, "aria-hidden": "true" }), text),
    ),
    Object.entries(TROUBLE).map(([kind, [mark, text]]) =>
      h("li", null, h("span", { classes: `cell ${kind}`, "aria-hidden": "true" }, mark), text),
    ),
    h("li", { classes: "note" }, `Figure: ${figure}`),
  );
}
