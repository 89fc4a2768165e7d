// All VMs: sorted and filtered by the API, most unreported memory first.

import { get } from "../lib/api.js";
import { atMostEvery, fill, h, inTurn } from "../lib/dom.js";
import { remember, to } from "../lib/route.js";
import { badge } from "../parts/badge.js";
import { barColumn, hostColumn, sizeColumn } from "../parts/columns.js";
import { memoryLegend } from "../parts/memory_bar.js";
import { problem } from "../parts/problem.js";
import { dataTable } from "../parts/table.js";

const PAGE = 100;
const SORTED = [
  "name",
  "host",
  "assigned",
  "resident",
  "footprint",
  "demand",
  "unreported",
  "reported",
  "returned",
  "reclaimable",
];
const STATES = ["", "running", "paused", "shutoff", "incoming", "other"];

export function domainsView({ place, title, fleet, query, signal }) {
  title("VMs");
  const filters = {
    name: query.get("name") ?? "",
    host: query.get("host") ?? "",
    project: query.get("project") ?? "",
    state: query.get("state") ?? "",
  };
  const [wanted, direction] = (query.get("sort") ?? "").split(":");
  let sort = SORTED.includes(wanted)
    ? { key: wanted, descending: direction !== "asc" }
    : { key: "unreported", descending: true };
  let pages = 1;
  let largest = 0;
  const trouble = h("div");
  const shown = h("span", { classes: "small", role: "status" });
  const more = h(
    "button",
    {
      type: "button",
      hidden: true,
      onclick: () => {
        pages += 1;
        load();
      },
    },
    "Show more",
  );
  const table = dataTable({
    caption: "VMs",
    id: (domain) => `${domain.uuid}/${domain.host}`, // several hosts may say that they have it
    sort,
    onSort: (next) => {
      sort = next;
      pages = 1;
      remember({
        sort: sort.key === "unreported" && sort.descending ? "" : `${sort.key}:${sort.descending ? "desc" : "asc"}`,
      });
      load();
    },
    empty: "No VM matches. Clear a filter.",
    columns: [
      {
        key: "name",
        label: "VM",
        text: (one) => `${one.name}\n${one.state}`,
        value: (one) => one.name,
        show: (one) => [
          h("a", { href: to("vms", one.uuid) }, one.name),
          one.state === "running" ? null : [" ", badge(one.state)],
        ],
      },
      hostColumn("host"),
      barColumn(() => largest),
      sizeColumn("unreported", "Unreported", { title: "free in the guest, still held by the host" }),
      sizeColumn("assigned", "Assigned"),
      sizeColumn("resident", "Resident"),
      sizeColumn("reported", "Reported", { title: "free in the guest and given back" }),
      sizeColumn("reclaimable", "Reclaimable", { title: "what could still come back, at most" }),
      sizeColumn("demand", "Demand", { title: "what it may come to need" }),
      sizeColumn("returned", "Returned", { title: "what the host saw come back" }),
      { key: "class", label: "Class", sortable: false, text: (one) => one.class ?? "unknown" },
      {
        key: "project",
        label: "Project",
        sortable: false,
        text: (one) => one.project ?? "unknown",
        show: (one) =>
          h("span", { classes: one.project ? "clip" : "clip unknown", title: one.project }, one.project ?? "unknown"),
      },
      {
        key: "source",
        label: "Source",
        sortable: false,
        title: "who tells what is inside the guest",
        text: (one) => one.source ?? "unknown",
      },
    ],
  });
  const filter = (label, control) => h("label", { classes: "inline" }, label, control);
  const input = (key, placeholder) =>
    h("input", {
      type: "search",
      value: filters[key],
      placeholder,
      oninput: (event) => set(key, event.target.value.trim()),
    });
  const states = h(
    "select",
    { onchange: () => set("state", states.value) },
    STATES.map((state) => h("option", { value: state, selected: filters.state === state }, state || "any")),
  );
  place.append(
    h("div", { classes: "title" }, h("h1", null, "VMs"), shown),
    h(
      "section",
      { classes: "panel", "aria-label": "VMs of the fleet" },
      h(
        "div",
        { classes: "panel-head" },
        h(
          "div",
          { classes: "toolbar" },
          filter("Name", input("name", "part of the name")),
          filter("Host", input("host", "whole name")),
          filter("Project", input("project", "whole id")),
          filter("State", states),
        ),
        memoryLegend(),
      ),
      trouble,
      table.element,
      h("div", { classes: "buttons" }, more),
    ),
  );
  const soon = atMostEvery(300, () => load(), signal);

  function set(key, value) {
    filters[key] = value;
    pages = 1;
    remember({ [key]: value });
    soon();
  }

  const turn = inTurn();
  const question = () => JSON.stringify([filters, sort, pages]);
  async function load() {
    const mayShow = turn();
    const asked = question();
    try {
      const all = [];
      let page = null;
      for (let at = 0; at < pages && (at === 0 || page.next); at += 1) {
        page =
          at === 0
            ? await get(
                "/v1/domains",
                { ...filters, limit: PAGE, sort: `${sort.key}:${sort.descending ? "desc" : "asc"}` },
                signal,
              )
            : await get(page.next, {}, signal);
        all.push(...page.domains);
      }
      if (asked !== question() || !mayShow()) return; // an answer to another question, or one that came late
      largest = Math.max(0, ...all.map((one) => one.assigned ?? 0));
      table.update(all);
      more.hidden = !page.next;
      shown.textContent = page.next ? `the first ${all.length}` : `${all.length}`;
      fill(trouble);
    } catch (error) {
      if (error.name === "AbortError" || asked !== question() || !mayShow()) return;
      fill(trouble, problem(error, load));
    }
  }

  fleet.addEventListener("hosts", atMostEvery(5000, load, signal), { signal });
  fleet.whileForbidden(load, signal);
  load();
}
