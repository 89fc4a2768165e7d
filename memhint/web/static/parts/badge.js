// Small words with a colour and a sign of their own: the colour never stands alone.

import { h } from "../lib/dom.js";
import { ago, moment } from "../lib/units.js";

const KIND = {
  fresh: "good",
  stale: "warn",
  silent: "bad",
  running: "good",
  applied: "good",
  unchanged: "good",
  planned: "info",
  pending: "info",
  queued: "info",
  holding: "good",
  done: "good",
  refused: "bad",
  failed: "bad",
  conflict: "warn",
  unsupported: "plain",
  expired: "warn",
  on: "good",
  off: "plain",
  unknown: "plain",
  operator: "info",
};
const SIGN = { good: "✓", warn: "!", bad: "×", info: "→", plain: "–" };

export function badge(word, kind = KIND[word] ?? "plain", sign = SIGN[kind]) {
  return h("span", { classes: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, sign), " ", word);
}

/** A moment that grows older by itself; the exact time is its title. */
export function age(at) {
  if (at === null || at === undefined) return h("span", { classes: "unknown" }, "unknown");
  return h("time", { "data-at": at, datetime: new Date(at * 1000).toISOString(), title: moment(at) }, ago(at));
}

/** Lets every shown age grow. */
export function keepAges() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time[data-at]")) {
      const text = ago(Number(element.dataset.at));
      if (element.textContent !== text) element.textContent = text;
    }
  }, 5000);
}
