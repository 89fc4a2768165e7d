// A history chart with a choice of how far back.

import { ahead, now } from "../lib/clock.js";
import { fill, freshId, h, inTurn } from "../lib/dom.js";
import { historyChart } from "./history_chart.js";
import { problem } from "./problem.js";

const RANGES = [
  ["1 h", 3600, 30_000],
  ["6 h", 6 * 3600, 60_000],
  ["24 h", 86_400, 120_000],
  ["7 d", 7 * 86_400, 600_000],
  ["30 d", 30 * 86_400, 600_000],
];
const POINTS = 400;
const LEAST_STEP = 10; // seconds; the API makes it longer where hosts look less often

/** @param read asks the API: ({since, step}) → {points} */
export function rangedHistory({ label, series, read, signal }) {
  const id = freshId("history");
  const chart = historyChart({ label, series, signal });
  const trouble = h("div");
  let range = RANGES[0];
  let timer = null;
  const buttons = RANGES.map((one) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(one === range),
        onclick: () => {
          range = one;
          buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(RANGES[index] === one)));
          load();
        },
      },
      one[0],
    ),
  );
  const element = h(
    "section",
    { classes: "panel", "aria-labelledby": id },
    h(
      "div",
      { classes: "panel-head" },
      h("h2", { id }, label),
      h("div", { classes: "switch", role: "group", "aria-label": "How far back" }, buttons),
    ),
    trouble,
    chart.element,
  );

  const turn = inTurn();
  async function load() {
    clearTimeout(timer);
    const mayShow = turn();
    const [, back, every] = range;
    try {
      const before = ahead;
      const end = Math.ceil(now());
      const { points } = await read({ since: end - back, step: Math.max(LEAST_STEP, Math.ceil(back / POINTS)) });
      if (!mayShow()) return; // and who asked later reads it again in time
      if (ahead !== before) return load(); // it was asked by this machine's clock, which is wrong
      chart.update(points, [end - back, end]);
      fill(trouble);
    } catch (error) {
      if (error.name === "AbortError" || !mayShow()) return;
      fill(trouble, problem(error, load));
    }
    clearTimeout(timer);
    if (!signal.aborted) timer = setTimeout(load, every);
  }

  signal.addEventListener("abort", () => clearTimeout(timer));
  load();
  return { element, load };
}
