// What levers refused lately: by reason first, then one by one.

import { get } from "../lib/api.js";
import { atMostEvery, fill, h, inTurn } from "../lib/dom.js";
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
  let older = false; // whether the log has more than were read
  const trouble = h("div");
  const chips = h("div", { classes: "chips", role: "group", "aria-label": "Only this reason" });
  const note = h("p", { classes: "small", role: "status" });
  const table = dataTable({
    caption: "Refusals, newest first",
    id: (one) => `${one.host}/${one.domain}/${one.lever}/${one.at}`,
    empty: "The log of events has no refusal.",
    columns: [
      {
        key: "at",
        label: "When",
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
      "Wishes that were not fulfilled, as the log of events has it: forbidden by a rule, impossible for this guest or host, or in somebody else's hands. What stands now is on the page of each host and VM.",
    ),
    trouble,
    h("section", { classes: "panel", "aria-label": "Refusals" }, chips, note, table.element),
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
    const text = JSON.stringify([reason, older, ...counts]);
    if (chips.dataset.shown !== text) {
      // Only what is new is drawn again: one of them may just be pressed.
      const held = chips.contains(document.activeElement);
      chips.dataset.shown = text;
      fill(
        chips,
        chip("", `${older ? "newest" : "all"} ${count(all.length)}`),
        [...counts].sort((a, b) => b[1] - a[1]).map(([word, seen]) => chip(word, `${word} ${count(seen)}`)),
      );
      if (held) chips.querySelector("[aria-pressed=true]")?.focus();
    }
    note.textContent = older ? "Older ones are not shown, and not counted by reason." : "";
    table.update(all.filter((one) => !reason || one.reason === reason));
  }

  const turn = inTurn();
  async function load() {
    const mayShow = turn();
    try {
      const page = await get("/v1/refusals", { limit: MOST }, signal);
      if (!mayShow()) return;
      all = page.refusals;
      older = Boolean(page.next);
      draw();
      fill(trouble);
    } catch (error) {
      if (error.name !== "AbortError" && mayShow()) fill(trouble, problem(error, load));
    }
  }

  fleet.addEventListener("hosts", atMostEvery(10_000, load, signal), { signal });
  load();
}
