// What happened: pulls of levers, and hosts that came, fell silent or returned. New ones come by themselves.

import { get } from "../lib/api.js";
import { fill, h, inTurn } from "../lib/dom.js";
import { remember } from "../lib/route.js";
import { age, badge } from "../parts/badge.js";
import { hostColumn, subjectColumn } from "../parts/columns.js";
import { problem } from "../parts/problem.js";
import { dataTable } from "../parts/table.js";

const PAGE = 200;
const KEPT = 1000; // that came by themselves: with more, the list is read anew
const KINDS = ["", "lever", "appeared", "silent", "returned", "restarted", "lost", "poison", "migration", "capacity"];

export function eventsView({ place, title, fleet, query, signal }) {
  title("Events");
  const filters = { host: query.get("host") ?? "", domain: query.get("domain") ?? "", kind: query.get("kind") ?? "" };
  let all = [];
  let next = null;
  let deep = false; // whether older pages are shown
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
    restart();
  }

  function merged(list) {
    const seen = new Map(list.map((one) => [one.key, one]));
    return [...seen.values()].sort((a, b) => b.at - a.at);
  }

  function take(list, from) {
    all = merged(list);
    next = from ?? null;
    more.hidden = !next;
    table.update(all);
    fill(trouble);
  }

  /** Reads the list anew: what stands there is of other filters, or has holes. */
  function restart() {
    next = null;
    more.hidden = true;
    deep = false;
    load();
  }

  const turn = inTurn();
  async function load() {
    const mayShow = turn();
    heard = [];
    try {
      const page = await get("/v1/events", { ...filters, limit: PAGE }, signal);
      if (!mayShow()) return;
      const found = page.events.map(keyed);
      const known = new Set(all.map((one) => one.key));
      deep &&= found.some((one) => known.has(one.key)); // else there is a hole between
      if (deep) take([...found, ...all], next);
      else take([...heard, ...found], page.next);
    } catch (error) {
      if (error.name !== "AbortError" && mayShow()) fill(trouble, problem(error, load));
    }
  }

  async function older() {
    const from = next;
    try {
      const page = await get(from, {}, signal);
      if (from !== next) return; // the list ends elsewhere by now
      deep = true;
      take([...all, ...page.events.map(keyed)], page.next);
    } catch (error) {
      if (error.name !== "AbortError" && from === next) fill(trouble, problem(error, older));
    }
  }

  fleet.addEventListener(
    "event",
    ({ detail }) => {
      if (Object.entries(filters).some(([key, value]) => value && detail[key] !== value)) return;
      const one = keyed(detail);
      heard = merged([one, ...heard]);
      all = merged([one, ...all]);
      table.update(all);
      if (heard.length > KEPT) restart();
    },
    { signal },
  );
  fleet.addEventListener("anew", restart, { signal });
  fleet.whileForbidden(load, signal);
  load();
}
