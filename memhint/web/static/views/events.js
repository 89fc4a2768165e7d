// What happened: pulls of levers, and hosts that came, fell silent or returned. New ones come by themselves.

import { get } from "../lib/api.js";
import { fill, h, inTurn } from "../lib/dom.js";
import { remember } from "../lib/route.js";
import { age, badge } from "../parts/badge.js";
import { hostColumn, subjectColumn } from "../parts/columns.js";
import { problem } from "../parts/problem.js";
import { dataTable } from "../parts/table.js";

const PAGE = 200;
const KEPT = 1000;
const KINDS = ["", "lever", "appeared", "silent", "returned", "restarted", "lost", "poison", "migration", "capacity"];

export function eventsView({ place, title, fleet, query, signal }) {
  title("Events");
  const filters = { host: query.get("host") ?? "", domain: query.get("domain") ?? "", kind: query.get("kind") ?? "" };
  let all = [];
  let next = null;
  let heard = []; // since the newest list was asked for: its answer may be older
  const trouble = h("div");
  const table = dataTable({
    caption: "Events, newest first",
    id: (one) => one.key,
    empty: "Nothing has happened that matches.",
    columns: [
      { key: "at", label: "When", sortable: false, text: (one) => String(one.at), show: (one) => age(one.at) },
      {
        key: "kind",
        label: "Kind",
        sortable: false,
        text: (one) => one.kind,
        show: (one) =>
          badge(
            one.kind,
            { silent: "bad", lost: "bad", poison: "bad", restarted: "warn", appeared: "good", returned: "good" }[
              one.kind
            ] ?? "info",
          ),
      },
      hostColumn("host", { sortable: false }),
      subjectColumn("", { sortable: false }),
      {
        key: "lever",
        label: "Lever",
        sortable: false,
        text: (one) => (one.lever ? `${one.lever} → ${one.desired ?? ""}` : ""),
      },
      {
        key: "answer",
        label: "Answer",
        sortable: false,
        text: (one) => one.answer ?? "",
        show: (one) => (one.answer ? badge(one.answer) : ""),
      },
      {
        key: "reason",
        label: "Reason",
        sortable: false,
        text: (one) => (one.reason && one.reason !== "none" ? one.reason : ""),
      },
      { key: "detail", label: "Detail", prose: true, sortable: false, text: (one) => one.detail ?? "" },
    ],
  });
  const more = h("button", { type: "button", hidden: true, onclick: older }, "Show older");
  const kinds = h(
    "select",
    { onchange: () => set("kind", kinds.value) },
    KINDS.map((kind) => h("option", { value: kind, selected: filters.kind === kind }, kind || "any")),
  );
  const text = (key, placeholder) =>
    h("input", {
      type: "search",
      value: filters[key],
      placeholder,
      onchange: (event) => set(key, event.target.value.trim()),
    });
  place.append(
    h("h1", null, "Events"),
    trouble,
    h(
      "section",
      { classes: "panel", "aria-label": "Events" },
      h(
        "div",
        { classes: "panel-head" },
        h(
          "div",
          { classes: "toolbar" },
          h("label", { classes: "inline" }, "Host", text("host", "whole name")),
          h("label", { classes: "inline" }, "VM", text("domain", "UUID")),
          h("label", { classes: "inline" }, "Kind", kinds),
        ),
      ),
      table.element,
      h("div", { classes: "buttons" }, more),
    ),
  );

  function keyed(one) {
    return { ...one, key: [one.at, one.host, one.kind, one.domain, one.lever, one.desired, one.detail].join("|") };
  }

  function set(key, value) {
    filters[key] = value;
    remember({ [key]: value });
    load();
  }

  function merged(list) {
    const seen = new Map(list.map((one) => [one.key, one]));
    return [...seen.values()].sort((a, b) => b.at - a.at);
  }

  function take(list, page) {
    all = list;
    next = page.next ?? null;
    more.hidden = !next;
    table.update(all);
    fill(trouble);
  }

  const turn = inTurn();
  async function load() {
    const mayShow = turn();
    heard = [];
    try {
      const page = await get("/v1/events", { ...filters, limit: PAGE }, signal);
      if (mayShow()) take(merged([...heard, ...page.events.map(keyed)]), page);
    } catch (error) {
      if (error.name !== "AbortError" && mayShow()) fill(trouble, problem(error, load));
    }
  }

  async function older() {
    try {
      const page = await get(next, {}, signal);
      take([...all, ...page.events.map(keyed)], page);
    } catch (error) {
      if (error.name !== "AbortError") fill(trouble, problem(error, older));
    }
  }

  fleet.addEventListener(
    "event",
    ({ detail }) => {
      if (Object.entries(filters).some(([key, value]) => value && detail[key] !== value)) return;
      const one = keyed(detail);
      heard = merged([one, ...heard]).slice(0, KEPT);
      all = merged([one, ...all]).slice(0, KEPT);
      table.update(all);
    },
    { signal },
  );
  fleet.whileForbidden(load, signal);
  load();
}
