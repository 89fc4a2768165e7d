// What levers refused lately: by reason first, then one by one.

import { get } from "../lib/api.js";
import { atMostEvery, fill, h } from "../lib/dom.js";
import { remember } from "../lib/route.js";
import { count } from "../lib/units.js";
import { age, badge } from "../parts/badge.js";
import { hostColumn, subjectColumn } from "../parts/columns.js";
import { problem } from "../parts/problem.js";
import { dataTable } from "../parts/table.js";

const MOST = 500;

export function refusalsView({ place, title, fleet, query, signal }) {
  title("Refusals");
  let reason = query.get("reason") ?? "";
  let all = [];
  const trouble = h("div");
  const chips = h("div", { classes: "chips", role: "group", "aria-label": "Only this reason" });
  const table = dataTable({
    caption: "Refusals, newest first",
    id: (one) => `${one.host}/${one.domain}/${one.lever}/${one.at}`,
    empty: "No lever refuses anything.",
    columns: [
      {
        key: "at",
        label: "Since",
        value: (one) => one.at,
        number: false,
        text: (one) => String(one.at),
        show: (one) => age(one.at),
      },
      hostColumn("host"),
      subjectColumn("the host"),
      { key: "lever", label: "Lever", text: (one) => one.lever },
      { key: "desired", label: "Desired", text: (one) => one.desired ?? "" },
      { key: "answer", label: "Answer", text: (one) => one.answer, show: (one) => badge(one.answer) },
      { key: "reason", label: "Reason", text: (one) => one.reason },
      { key: "detail", label: "What to do", prose: true, sortable: false, text: (one) => one.detail ?? "" },
    ],
  });
  place.append(
    h("h1", null, "Refusals"),
    h(
      "p",
      { classes: "lead" },
      "Wishes that were not fulfilled: forbidden by a rule, impossible for this guest or host, or in somebody else's hands.",
    ),
    trouble,
    h("section", { classes: "panel", "aria-label": "Refusals" }, chips, table.element),
  );

  function draw() {
    const counts = new Map();
    for (const one of all) counts.set(one.reason, (counts.get(one.reason) ?? 0) + 1);
    const chip = (value, text) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(reason === value),
          onclick: () => {
            reason = value;
            remember({ reason });
            draw();
          },
        },
        text,
      );
    const text = JSON.stringify([reason, ...counts]);
    if (chips.dataset.shown !== text) {
      // Only what is new is drawn again: one of them may just be pressed.
      const held = chips.contains(document.activeElement);
      chips.dataset.shown = text;
      fill(
        chips,
        chip("", `all ${count(all.length)}`),
        [...counts].sort((a, b) => b[1] - a[1]).map(([word, seen]) => chip(word, `${word} ${count(seen)}`)),
      );
      if (held) chips.querySelector("[aria-pressed=true]")?.focus();
    }
    table.update(all.filter((one) => !reason || one.reason === reason));
  }

  async function load() {
    try {
      all = (await get("/v1/refusals", { limit: MOST }, signal)).refusals;
      draw();
      fill(trouble);
    } catch (error) {
      if (error.name !== "AbortError") fill(trouble, problem(error, load));
    }
  }

  fleet.addEventListener("hosts", atMostEvery(10_000, load, signal), { signal });
  load();
}
