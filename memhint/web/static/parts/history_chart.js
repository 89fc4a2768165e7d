// A history over time: uPlot on a canvas, and beside it a summary, a keyboard cursor and a table.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { announce, fill, freshId, h } from "../lib/dom.js";
import { colour, onThemeChange } from "../lib/theme.js";
import { GIB, gib, known, memory, moment, UNKNOWN } from "../lib/units.js";

const ticked = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const ROWS = 48;
const HEIGHT = 220;

/**
 * @param label what it shows
 * @param series [{key, label, colour: "--used", dash?, area?, hidden?}], each a key of a point, in bytes
 */
export function historyChart({ label, series, signal }) {
  const shown = series.map((one) => !one.hidden);
  const summaryId = freshId("chart");
  const canvas = h("div", {
    classes: "canvas",
    tabindex: "0",
    role: "group",
    "aria-roledescription": "chart",
    "aria-label": label,
    "aria-describedby": summaryId,
  });
  const summary = h("p", { id: summaryId, classes: "summary" });
  const values = series.map(() => h("b"));
  const when = h("span", { classes: "when" });
  const keys = series.map((one, index) => {
    const sign = h("span", { classes: "line-sign", "aria-hidden": "true" });
    sign.style.setProperty("--sign", `var(${one.colour})`);
    if (one.dash) sign.classList.add("dashed");
    return h(
      "button",
      { type: "button", "aria-pressed": String(shown[index]), onclick: () => toggle(index) },
      sign,
      one.label,
      values[index],
    );
  });
  const rows = h("tbody");
  const table = h(
    "details",
    { classes: "chart-table", ontoggle: () => tell() },
    h("summary", null, "As a table"),
    h(
      "div",
      { classes: "scroll", role: "region", tabindex: "0", "aria-label": `${label}, as a table` },
      h(
        "table",
        null,
        h("caption", { classes: "unseen" }, `${label}, GiB`),
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "Time"),
            series.map((one) => h("th", { scope: "col", classes: "number" }, `${one.label}, GiB`)),
          ),
        ),
        rows,
      ),
    ),
  );
  const element = h(
    "figure",
    { classes: "chart" },
    h("div", { classes: "keys" }, keys, when),
    canvas,
    h("figcaption", null, summary, table),
  );
  let plot = null;
  let points = [];
  let shownRange = [0, 1];

  function toggle(index) {
    shown[index] = !shown[index];
    keys[index].setAttribute("aria-pressed", String(shown[index]));
    plot?.setSeries(index + 1, { show: shown[index] });
  }

  function read(index) {
    const point = known(index) ? data[0][index] : null;
    when.textContent = known(point) ? moment(point) : "newest";
    series.forEach((_, place) => {
      const column = data[place + 1];
      const value = known(index) ? column[index] : column.findLast(known);
      values[place].textContent = known(value) ? memory(value * GIB) : UNKNOWN;
    });
  }

  let data = [[]];
  function draw() {
    plot?.destroy();
    plot = null;
    if (!points.length || !canvas.clientWidth) return;
    const line = colour("--line");
    const text = colour("--muted");
    const axis = {
      stroke: text,
      grid: { stroke: line, width: 1 },
      ticks: { stroke: line, width: 1 },
      font: "11px Inter, sans-serif",
    };
    plot = new uPlot(
      {
        width: canvas.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { size: 6 } },
        scales: {
          x: { range: () => shownRange },
          y: { range: (_, low, high) => [Math.min(0, low * 1.05), Math.max(high * 1.05, 0.1)] },
        },
        axes: [
          {
            ...axis,
            values: [
              [86400, "{DD} {MMM}", null, null, null, null, null, null, 1],
              [3600, "{HH}:{mm}", "\n{DD} {MMM}", null, null, null, null, null, 1],
              [1, "{HH}:{mm}:{ss}", "\n{DD} {MMM}", null, null, null, null, null, 1],
            ],
          },
          {
            ...axis,
            size: (_, texts) => 14 + 6.5 * Math.max(4, ...(texts ?? []).map((text) => text.length)),
            values: (_, ticks) => ticks.map((value) => `${ticked.format(value).replaceAll(",", "\u202f")} GiB`),
          },
        ],
        series: [
          {},
          ...series.map((one, index) => ({
            label: one.label,
            stroke: colour(one.colour),
            width: one.dash ? 1.25 : 1.75,
            dash: one.dash,
            fill: one.area ? faint(colour(one.colour)) : undefined,
            show: shown[index],
            spanGaps: false,
            points: { show: (self) => self.data[0].length < 3, size: 5 }, // a line needs two
          })),
        ],
        hooks: { setCursor: [(self) => read(self.cursor.idx)] },
      },
      data,
      canvas,
    );
    read(null);
  }

  function tell() {
    const known_ = points.length;
    if (!known_) {
      summary.textContent = "No history yet.";
      fill(rows);
      return;
    }
    const parts = series
      .map((one) => {
        const seen = points.map((point) => point[one.key]).filter(known);
        if (!seen.length) return `${one.label} unknown`;
        return `${one.label} ${memory(Math.min(...seen))} to ${memory(Math.max(...seen))}`;
      })
      .join("; ");
    summary.textContent = `${moment(points[0].at)} to ${moment(points.at(-1).at)}. ${parts}.`;
    if (!table.open) return;
    const step = Math.max(1, Math.ceil(points.length / ROWS));
    const chosen = points.filter((_, index) => (points.length - 1 - index) % step === 0).reverse();
    fill(
      rows,
      chosen.map((point) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, moment(point.at)),
          series.map((one) => h("td", { classes: "number" }, gib(point[one.key]))),
        ),
      ),
    );
  }

  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (!plot || (!step && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    const last = data[0].length - 1;
    const from = plot.cursor.idx ?? last;
    const index = event.key === "Home" ? 0 : event.key === "End" ? last : Math.max(0, Math.min(last, from + step));
    plot.setCursor({ left: plot.valToPos(data[0][index], "x"), top: 10 });
    announce(
      `${moment(data[0][index])}: ${series.map((one, place) => `${one.label} ${values[place].textContent}`).join(", ")}`,
    );
  });
  const width = new ResizeObserver(() => {
    if (plot && canvas.clientWidth) plot.setSize({ width: canvas.clientWidth, height: HEIGHT });
    else draw();
  });
  width.observe(canvas);
  signal.addEventListener("abort", () => {
    width.disconnect();
    plot?.destroy();
  });
  onThemeChange(draw, signal);

  return {
    element,
    /** Points oldest first, each with `at` in seconds, and the moments at both ends. */
    update(next, [from, until]) {
      points = next;
      shownRange = [from, until];
      data = columns(points, series);
      const same = plot && data[0].length;
      if (same) {
        plot.setData(data);
        if (plot.cursor.idx === null || plot.cursor.left < 0) read(null);
      } else draw();
      tell();
    },
  };
}

/** Columns for uPlot in GiB, broken where points are missing. */
export function columns(points, series) {
  const all = [[], ...series.map(() => [])];
  const distances = points
    .slice(1)
    .map((point, index) => point.at - points[index].at)
    .sort((a, b) => a - b);
  const usual = distances[Math.floor(distances.length / 2)] ?? 0;
  points.forEach((point, index) => {
    const before = points[index - 1];
    if (before && point.at - before.at > 3 * usual) {
      all[0].push(before.at + usual);
      series.forEach((_, place) => all[place + 1].push(null));
    }
    all[0].push(point.at);
    series.forEach((one, place) => all[place + 1].push(known(point[one.key]) ? point[one.key] / GIB : null));
  });
  return all;
}

function faint(rgb) {
  return rgb.replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)");
}
