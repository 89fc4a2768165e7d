// One host: its VMs as bars, what its headroom is made of, the ladder, its levers, and what is not known.

import { get } from "../lib/api.js";
import { atMostEvery, fill, h, inTurn } from "../lib/dom.js";
import { to } from "../lib/route.js";
import { count, counted, gib, heldOf, known, memory, percent, span } from "../lib/units.js";
import { BOUND, HOST_STATE, RUNGS } from "../lib/words.js";
import { age, badge } from "../parts/badge.js";
import { barColumn, sizeColumn } from "../parts/columns.js";
import { figures } from "../parts/figures.js";
import { leverTable } from "../parts/lever_table.js";
import { memoryLegend } from "../parts/memory_bar.js";
import { panel } from "../parts/panel.js";
import { wideTable } from "../parts/plain_table.js";
import { problem } from "../parts/problem.js";
import { rangedHistory } from "../parts/ranged_history.js";
import { dataTable } from "../parts/table.js";

const OPTIONAL = new Set(["ceiling", "node"]); // absent where no such limit is
const EVERY = 3000; // ms at least between two readings

/** The terms of the headroom, in the order in which the formula has them. */
const TERMS = [
  ["pool", "Memory that VMs and everything else share"],
  ["reserve", "Kept by the host"],
  ["other", "Other work on the host, at its peak"],
  ["assigned", "Assigned to VMs, with QEMU's overhead"],
  ["footprint", "Footprint of the VMs"],
  ["resident", "Resident: host memory behind the VMs"],
  ["want", "Demand: what the VMs may come to need"],
  ["spare", "Kept for VMs that grow all at once"],
  ["available", "What the kernel could give now"],
  ["ksm_saving", "Saved by merging: raises no headroom"],
  ["backing", "Disk swap and what may be unbacked"],
  ["model", "Headroom by the forecast"],
  ["now", "Headroom by what is free now"],
  ["back", "Headroom by what could be backed"],
  ["ceiling", "Headroom by the maximum ratio"],
  ["node", "Headroom by the tightest NUMA node"],
  ["headroom", "What may be promised"],
];
/** What the terms are made of, where it is known and no size. */
const MADE_OF = [
  ["max_ratio", "The ratio that the ceiling is made of", (found) => `${found}`],
  ["storm", "VMs that may grow at once, for which spare is enough", (found) => `${found} %`],
  ["together", "Demand is what VMs used together at their worst", () => "yes"],
  ["blind", "Which VMs there are is not known: nothing may be promised", () => "yes"],
];

export function hostView({ place, title, fleet, parts, query, signal }) {
  const name = parts[1];
  const path = `/v1/hosts/${encodeURIComponent(name)}`;
  title(name);
  const state = h("span", { classes: "states" });
  const trouble = h("div");
  const key = figures("This host in figures");
  const capacity = h("tbody");
  const ladder = h("ol", { classes: "ladder" });
  const gaps = h("ul", { classes: "plain gaps" });
  const promise = h("ul", { classes: "plain gaps" });
  const actions = h("ul", { classes: "plain gaps" });
  const levers = leverTable(`Levers of ${name}`);
  let largest = 0;
  const vms = dataTable({
    caption: `VMs of ${name}`,
    id: (domain) => domain.uuid,
    sort: { key: query.get("sort") ?? "unreported", descending: query.get("order") !== "asc" },
    onSort: null,
    empty: "No VM is on this host.",
    columns: [
      {
        key: "name",
        label: "VM",
        text: (domain) => domain.name,
        show: (domain) => h("a", { href: to("vms", domain.uuid) }, domain.name),
      },
      barColumn(() => largest),
      sizeColumn("assigned", "Assigned"),
      sizeColumn("resident", "Resident"),
      sizeColumn("unreported", "Unreported"),
      sizeColumn("reported", "Reported"),
      sizeColumn("shared", "Shared"),
      sizeColumn("demand", "Demand"),
      { key: "demand_reason", label: "Counts by", text: (domain) => domain.demand_reason ?? "unknown" },
    ],
  });
  const history = rangedHistory({
    label: "History",
    signal,
    read: (range) => get(`${path}/history`, range, signal),
    series: [
      { key: "assigned", label: "Assigned", colour: "--assigned", dash: [5, 4] },
      { key: "footprint", label: "Footprint", colour: "--used", area: true },
      { key: "available", label: "Available", colour: "--reported" },
      { key: "headroom", label: "Headroom", colour: "--good" },
      { key: "swap_used", label: "Swap used", colour: "--bad" },
    ],
  });
  const content = h(
    "div",
    { classes: "stack" },
    key.element,
    panel("vms", "VMs", [memoryLegend()], h("div", { classes: "host-vms" }, vms.element)),
    h(
      "div",
      { classes: "pair" },
      panel(
        "capacity",
        "Where the headroom comes from",
        [],
        wideTable(
          "Terms of the headroom",
          "Terms of the headroom, GiB",
          ["Term", { number: "GiB" }, "Meaning"],
          capacity,
        ),
      ),
      h(
        "div",
        { classes: "stack" },
        panel("ladder", "Pressure ladder", [], ladder),
        panel("promise", "Promised against came, the tightest hours first", [], promise),
        panel("gaps", "Not known", [], gaps),
        panel("actions", "To be pulled", [], actions),
      ),
    ),
    panel("levers", "Levers", [], levers.element),
    history.element,
  );
  place.append(
    h("p", { classes: "crumbs" }, h("a", { href: "#/fleet" }, "Fleet"), " / Host"),
    h("div", { classes: "title" }, h("h1", null, name), state),
    trouble,
    content,
  );

  const turn = inTurn();
  async function load() {
    const mayShow = turn();
    try {
      const [{ host }, domains] = await Promise.all([get(path, {}, signal), everyDomain(name, signal)]);
      if (!mayShow()) return;
      draw(host, domains);
      fill(trouble);
      content.hidden = false;
    } catch (error) {
      if (error.name === "AbortError" || !mayShow()) return;
      fill(trouble, problem(error, load));
      if (!key.element.childElementCount) content.hidden = true;
    }
  }

  function draw(host, domains) {
    fill(
      state,
      h("span", { title: HOST_STATE[host.state] }, badge(host.state)),
      host.admitting && host.state === "fresh" ? badge("admitting", "good") : badge("admits no VM", "warn"),
      h(
        "span",
        { classes: "small" },
        "report ",
        age(host.at),
        `, every ${span(host.period)}`,
        host.agent ? `, agent ${host.agent}` : "",
      ),
    );
    key.update([
      { name: "Memory", value: memory(host.pool) },
      { name: "VMs", value: count(host.domains) },
      {
        name: "Footprint",
        value: memory(host.footprint),
        note: known(host.assigned) ? `of ${memory(host.assigned)} assigned` : null,
      },
      {
        name: "Headroom",
        value: memory(host.headroom),
        note: host.bound ? `by ${host.bound}` : null,
        title: BOUND[host.bound],
        kind: "strong",
      },
      {
        name: "More VMs",
        value: count(host.slots),
        note: `of ${memory(host.slot)}, nominal ${count(host.nominal_slots)}`,
        kind: "strong",
      },
      { name: "Pressure", value: percent(host.psi), kind: host.rungs?.length ? "bad" : "" },
      { name: "Unreported", value: memory(host.unreported) },
      { name: "Returned", value: memory(host.returned) },
      {
        name: "Promise held",
        value: host.promise ? percent(heldOf(host.promise), 2) : "not judged",
        note: host.promise ? `of ${counted(host.promise.hours, "hour")}` : null,
        title: "Hours in which all could have been given that was promised as they began",
        kind: host.promise && host.promise.held < host.promise.hours ? "bad" : "",
      },
      {
        name: "Huge pages",
        value: percent(known(host.huge?.coverage) ? 100 * host.huge.coverage : null, 0),
        title: "Of the VMs' resident memory: the part that huge pages back",
      },
      {
        name: "Remote",
        value: percent(known(host.huge?.remote) ? 100 * host.huge.remote : null, 0),
        title: "Of the VMs' memory: the part that their CPUs fetch from another node",
      },
      {
        name: "Active",
        value: memory(host.tier?.load.active),
        note: tierWords(host.tier),
        title:
          "Touched within a minute. A tier is slower memory of the size of DRAM; what is active is at most half of DRAM",
      },
    ]);
    largest = Math.max(0, ...domains.map((domain) => domain.assigned ?? 0));
    vms.update(domains);
    drawCapacity(host);
    const entered = new Map((host.ladder ?? []).map((one) => [one.rung, one]));
    fill(
      ladder,
      RUNGS.map(([rung, meaning]) => {
        const one = entered.get(rung);
        return h(
          "li",
          { classes: one ? "entered" : null },
          h("b", null, rung),
          " ",
          one ? badge("entered", "bad") : null,
          h(
            "span",
            { classes: "small" },
            one ? ` since ` : meaning,
            one ? age(one.since) : null,
            one?.detail ? `: ${one.detail}` : "",
          ),
        );
      }),
    );
    fill(
      gaps,
      host.gaps?.length
        ? host.gaps.map((gap) =>
            h("li", null, h("b", null, gap.what), " ", badge(gap.reason, "plain"), " ", gap.detail),
          )
        : h("li", { classes: "empty" }, "Nothing is missing about the host itself."),
    );
    fill(
      actions,
      host.actions?.length
        ? host.actions.map((one) =>
            h(
              "li",
              null,
              h("b", null, one.lever),
              ` → ${one.desired} `,
              h("span", { classes: "small" }, `${one.subject}: ${one.why}`),
            ),
          )
        : h("li", { classes: "empty" }, "Nothing."),
    );
    levers.update(host.levers ?? []);
    drawPromise(host.promise);
  }

  function drawPromise(kept) {
    fill(
      promise,
      kept
        ? kept.worst.map((one) =>
            h(
              "li",
              null,
              badge(one.came < one.promised ? "broken" : "held", one.came < one.promised ? "bad" : "good"),
              ` ${memory(one.promised)} promised, ${memory(Math.max(0, one.came))} came, `,
              h("span", { classes: "small" }, age(one.at)),
            ),
          )
        : h("li", { classes: "empty" }, "No hour is judged yet: a controller does so once an hour is over."),
    );
  }

  function drawCapacity(host) {
    const terms = host.capacity ?? {};
    // Of an old report less may be promised than it has.
    const value = (name) => (name in terms && name !== "headroom" ? terms[name] : host[name]);
    const rows = TERMS.filter(([name]) => name in terms || name in host);
    const others = MADE_OF.filter(([name]) => terms[name]);
    fill(capacity, [
      ...rows.map(([name, meaning]) =>
        h(
          "tr",
          { classes: name === host.bound || name === "headroom" ? "binding" : null },
          h("th", { scope: "row" }, name.replaceAll("_", " ")),
          h("td", { classes: "number" }, OPTIONAL.has(name) && !known(value(name)) ? "no limit" : gib(value(name))),
          h(
            "td",
            { classes: "small" },
            meaning,
            name === host.bound && name !== "headroom" ? " (this one bounds it)" : "",
            name === "headroom" && host.state !== "fresh" ? " (its report is old: no more than nominal)" : "",
          ),
        ),
      ),
      ...others.map(([name, meaning, words]) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, name.replaceAll("_", " ")),
          h("td", { classes: "number" }, words(terms[name])),
          h("td", { classes: "small" }, meaning),
        ),
      ),
    ]);
  }

  const again = atMostEvery(EVERY, load, signal);
  fleet.addEventListener(
    "hosts",
    ({ detail }) => {
      if (detail === null || detail.has(name)) again();
    },
    { signal },
  );
  load();
}

async function everyDomain(host, signal) {
  const all = [];
  let page = await get("/v1/domains", { host, limit: 1000 }, signal);
  for (;;) {
    all.push(...page.domains);
    if (!page.next) return all;
    page = await get(page.next, {}, signal);
  }
}

// What a slower tier as large as DRAM would give the VMs of now.
function tierWords(tier) {
  const largest = tier?.gains.at(-1);
  if (!largest) return "";
  const more = Math.floor(largest.vms - largest.without);
  return more ? `${counted(more, "VM")} more with a tier` : "a tier gives nothing";
}
