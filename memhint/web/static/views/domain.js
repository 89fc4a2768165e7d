// One VM: where its memory is, how it went, what may be done with it, and doing it.

import { get } from "../lib/api.js";
import { atMostEvery, fill, h, inTurn } from "../lib/dom.js";
import { remember, to } from "../lib/route.js";
import { counted, gib, known, memory, percent, span } from "../lib/units.js";
import { RECLAIM_STATE, STOP, heldWords } from "../lib/words.js";
import { age, badge } from "../parts/badge.js";
import { figures } from "../parts/figures.js";
import { leverTable } from "../parts/lever_table.js";
import { memoryBar, memoryLegend } from "../parts/memory_bar.js";
import { openPolicy } from "../parts/policy_dialog.js";
import { panel } from "../parts/panel.js";
import { plainTable, wideTable } from "../parts/plain_table.js";
import { problem } from "../parts/problem.js";
import { rangedHistory } from "../parts/ranged_history.js";
import { openReclaim } from "../parts/reclaim_dialog.js";
import { dataTable } from "../parts/table.js";

const EVERY = 3000;

export function domainView({ place, title, fleet, parts, query, signal }) {
  const uuid = parts[1];
  const path = `/v1/domains/${encodeURIComponent(uuid)}`;
  title("VM");
  let domain = null;
  const heading = h("h1", null, "VM");
  const state = h("span", { classes: "states" });
  const trouble = h("div");
  const key = figures("This VM in figures");
  const bar = h("div");
  const facts = h("dl", { classes: "facts" });
  const policy = h("tbody");
  const levers = leverTable("Levers of this VM");
  const returns = h("tbody");
  const notes = h("ul", { classes: "plain gaps" });
  const reclaim = h(
    "button",
    {
      type: "button",
      classes: "primary",
      disabled: true,
      onclick: () => openReclaim(domain, both),
    },
    "Reclaim memory…",
  );
  const edit = h("button", { type: "button", disabled: true, onclick: () => openPolicy(domain, load) }, "Edit policy…");
  const crumb = h("span", null, "VM");
  const hostLinks = [h("a"), h("a")]; // kept: one of them may have the focus
  const condition = h("span");
  const seen = h("span");
  const reclaims = dataTable({
    caption: "Reclaims asked of this VM",
    id: (one) => one.id,
    empty: "This VM has not been asked to give memory back.",
    columns: [
      {
        key: "at",
        label: "Asked",
        value: (one) => one.at,
        text: (one) => String(one.at),
        show: (one) => age(one.at),
        sortable: false,
      },
      {
        key: "state",
        label: "State",
        sortable: false,
        text: (one) => one.state,
        show: (one) => h("span", { title: RECLAIM_STATE[one.state] }, badge(one.state)),
      },
      { key: "returned", label: "Returned", number: true, sortable: false, text: (one) => memory(one.returned) },
      { key: "stop", label: "Ended because", sortable: false, text: (one) => STOP[one.stop] ?? "" },
      { key: "held", label: "Held", sortable: false, text: (one) => (one.held ? heldWords(one.held) : "") },
      { key: "by", label: "By", sortable: false, text: (one) => one.by ?? "" },
      { key: "reason", label: "Why", sortable: false, text: (one) => one.reason ?? "" },
      { key: "detail", label: "Detail", prose: true, sortable: false, text: (one) => one.verdict?.detail ?? "" },
    ],
  });
  const history = rangedHistory({
    label: "History",
    signal,
    read: (range) => get(`${path}/history`, range, signal),
    series: [
      { key: "assigned", label: "Assigned", colour: "--assigned", dash: [5, 4] },
      { key: "resident", label: "Resident", colour: "--used", area: true },
      { key: "demand", label: "Demand", colour: "--muted", dash: [2, 3] },
      { key: "unreported", label: "Unreported", colour: "--unreported" },
      { key: "reported", label: "Reported", colour: "--reported" },
      { key: "shared", label: "Shared", colour: "--shared", hidden: true },
      { key: "swap", label: "Swapped", colour: "--swapped", hidden: true },
    ],
  });
  const content = h(
    "div",
    { classes: "stack", hidden: true },
    key.element,
    panel("memory", "Memory", [memoryLegend()], bar, facts),
    history.element,
    h(
      "div",
      { classes: "pair" },
      panel(
        "policy",
        "Policy",
        [edit],
        wideTable("Policy of this VM", "Policy of this VM", ["Key", "Value", "Said by"], policy),
      ),
      h(
        "div",
        { classes: "stack" },
        panel(
          "reclaimable",
          "What could come back",
          [],
          plainTable("Reclaimable by lever", ["Lever", { number: "At most, GiB" }, "Source", "Seen"], returns),
        ),
        panel("notes", "Excluded and not known", [], notes),
      ),
    ),
    panel("levers", "Levers", [], levers.element),
    panel("reclaims", "Reclaims", [], reclaims.element),
  );
  place.append(
    h("p", { classes: "crumbs" }, h("a", { href: "#/vms" }, "VMs"), " / ", crumb),
    h("div", { classes: "title" }, heading, state, h("div", { classes: "actions" }, reclaim)),
    trouble,
    content,
  );

  const domainsTurn = inTurn();
  async function load() {
    const mayShow = domainsTurn();
    try {
      const found = await get(path, {}, signal);
      if (!mayShow()) return;
      ({ domain } = found);
      draw();
      fill(trouble);
      content.hidden = false;
      reclaim.disabled = edit.disabled = false;
      if (query.get("edit") === "policy") {
        query.delete("edit");
        remember({ edit: "" });
        openPolicy(domain, load);
      }
    } catch (error) {
      if (error.name !== "AbortError" && mayShow()) fill(trouble, problem(error, load));
    }
  }

  function draw() {
    title(domain.name);
    heading.textContent = domain.name;
    for (const link of hostLinks) {
      link.textContent = domain.host;
      link.setAttribute("href", to("hosts", domain.host));
    }
    if (!state.firstChild) {
      fill(crumb, hostLinks[0]);
      fill(state, condition, h("span", { classes: "small" }, "seen ", seen, " on ", hostLinks[1]));
    }
    fill(condition, badge(domain.state));
    fill(seen, age(domain.at));
    key.update([
      { name: "Assigned", value: memory(domain.assigned) },
      { name: "Resident", value: memory(domain.resident), title: "host memory behind it now" },
      {
        name: "Unreported",
        value: memory(domain.unreported),
        kind: "unreported",
        title: "free in the guest, still held by the host",
      },
      { name: "Reported", value: memory(domain.reported), title: "free in the guest and given back to the host" },
      { name: "Shared", value: memory(domain.shared), title: "merged with other VMs" },
      { name: "Demand", value: memory(domain.demand), note: domain.demand_reason, title: "what it may come to need" },
      { name: "Reclaimable", value: memory(domain.reclaimable), title: "at most, by every lever" },
      { name: "Returned", value: memory(domain.returned), title: "what the host saw come back" },
    ]);
    fill(bar, memoryBar(domain, 0));
    fill(
      facts,
      [
        ["Project", domain.project ?? "unknown"],
        ["Class", domain.class ?? "unknown"],
        ["Minimum", known(domain.minimum) && domain.minimum === 0 ? "none" : memory(domain.minimum)],
        ["Footprint", memory(domain.footprint)],
        ["Free inside", memory(domain.free)],
        ["Swapped", memory(domain.swap)],
        ["Huge pages", known(domain.huge_coverage) ? percent(100 * domain.huge_coverage, 0) : "unknown"],
        ["Mapped by KVM in huge pages", known(domain.huge_mapped) ? percent(100 * domain.huge_mapped, 0) : "unknown"],
        ["On another node than its CPUs", known(domain.remote) ? percent(100 * domain.remote, 0) : "unknown"],
        ["In use", memory(domain.active?.idle?.length ? domain.active.resident - domain.active.idle[0].bytes : null)],
        ...(domain.active?.idle ?? []).map((one) => [`Not touched for ${span(one.age)}`, memory(one.bytes)]),
        ...(domain.merging
          ? [
              ["Merged", memory(domain.merging.merged)],
              ["Of it empty pages", memory(domain.merging.zero)],
              ...(domain.merging.partition ? [["In KSM's partition", String(domain.merging.partition)]] : []),
              ["Broken up in a minute", counted(domain.merging.breaks, "page")],
            ]
          : []),
        ["Told by", domain.source ?? "unknown"],
        ["Guest and host", domain.agreement ?? "unknown"],
        ["UUID", domain.uuid],
      ].map(([name, value]) =>
        h("div", null, h("dt", null, name), h("dd", { classes: value === "unknown" ? "unknown" : null }, value)),
      ),
    );
    fill(
      policy,
      Object.entries(domain.policy ?? {}).map(([name, { value, origin }]) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, name),
          h(
            "td",
            null,
            value === null ? h("span", { classes: "unknown" }, "unknown") : value === "" ? "nobody" : value,
          ),
          h("td", null, origin === "operator" ? badge(origin) : (origin ?? "unknown")),
        ),
      ),
    );
    const by = Object.entries(domain.reclaimable_by ?? {});
    fill(
      returns,
      by.length
        ? by.map(([lever, one]) =>
            h(
              "tr",
              null,
              h("th", { scope: "row" }, lever),
              h("td", { classes: known(one.at_most) ? "number" : "number unknown" }, gib(one.at_most)),
              h("td", null, one.source ?? "unknown"),
              h("td", null, age(one.at)),
            ),
          )
        : h("tr", null, h("td", { colspan: "4", classes: "unknown" }, "unknown")),
    );
    const list = [
      ...(domain.excluded ?? []).map((one) => h("li", null, badge(one.reason, "warn"), " ", one.detail)),
      ...(domain.gaps ?? []).map((gap) =>
        h("li", null, h("b", null, gap.what), " ", badge(gap.reason, "plain"), " ", gap.detail),
      ),
    ];
    fill(notes, list.length ? list : h("li", { classes: "empty" }, "Excluded from nothing, and everything is known."));
    levers.update(domain.levers ?? []);
  }

  const reclaimsTurn = inTurn();
  async function loadReclaims() {
    const mayShow = reclaimsTurn();
    try {
      const found = await get("/v1/reclaims", { domain: uuid, limit: 20 }, signal);
      if (mayShow()) reclaims.update(found.reclaims);
    } catch (error) {
      if (error.name !== "AbortError" && mayShow()) fill(trouble, problem(error, loadReclaims));
    }
  }

  function both() {
    load();
    loadReclaims();
  }

  const again = atMostEvery(EVERY, both, signal);
  fleet.addEventListener(
    "hosts",
    ({ detail }) => {
      if (detail === null || (domain && detail.has(domain.host))) again();
    },
    { signal },
  );
  fleet.addEventListener(
    "event",
    ({ detail }) => {
      if (detail.domain === uuid) loadReclaims();
    },
    { signal },
  );
  fleet.whileForbidden(both, signal);
  both();
}
