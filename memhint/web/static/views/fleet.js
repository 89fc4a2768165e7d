// The fleet: a map of hosts, what is wrong, where memory lies about, and how it went.

import { get } from "../lib/api.js";
import { atMostEvery, fill, h } from "../lib/dom.js";
import { remember, to } from "../lib/route.js";
import { count, counted, gib, heldOf, known, memory, percent, sum, UNKNOWN } from "../lib/units.js";
import { badge } from "../parts/badge.js";
import { figures } from "../parts/figures.js";
import { fleetMap, mapLegend, METRICS, TROUBLE, trouble } from "../parts/fleet_map.js";
import { hostTable } from "../parts/host_table.js";
import { memoryBar } from "../parts/memory_bar.js";
import { problem } from "../parts/problem.js";
import { rangedHistory } from "../parts/ranged_history.js";
import { compare } from "../parts/table.js";

const SORTS = {
  name: ["Name", (host) => host.name, 1],
  headroom: ["Most headroom", (host) => host.headroom, -1],
  pressure: ["Most pressure", (host) => host.psi, -1],
  unreported: ["Most unreported", (host) => host.unreported, -1],
  vms: ["Most VMs", (host) => host.domains, -1],
};
const STATES = {
  "": "All hosts",
  admitting: "Admitting",
  trouble: "Any trouble",
  ...Object.fromEntries(Object.entries(TROUBLE).map(([key, [, text]]) => [key, text[0].toUpperCase() + text.slice(1)])),
};
const REDRAW = 500; // ms
const TOP = 6;

export function fleetView({ place, title, fleet, query, signal }) {
  title("Fleet");
  const chosen = {
    q: query.get("q") ?? "",
    state: query.get("state") in STATES ? query.get("state") : "",
    sort: query.get("sort") in SORTS ? query.get("sort") : "name",
    colour: query.get("colour") in METRICS ? query.get("colour") : "headroom",
    as: query.get("as") === "table" ? "table" : "map",
  };
  const key = figures("The fleet in figures");
  const map = fleetMap();
  const table = hostTable();
  const legend = h("div");
  const shownCount = h("span", { classes: "small", role: "status" });
  const hosts = h("div", { classes: "hosts" });
  const attention = h("ul", { classes: "attention plain" });
  const attentionNote = h("span", { classes: "small" });
  const most = h("ol", { classes: "most plain" });
  const mostProblem = h("div");
  const forbidden = h("div");
  const redraw = atMostEvery(REDRAW, draw, signal);
  const readMost = atMostEvery(10_000, loadMost, signal);
  const readPromises = atMostEvery(300_000, loadPromises, signal); // an hour is judged once, after its end
  let promises; // as the API tells

  const search = h("input", {
    type: "search",
    value: chosen.q,
    placeholder: "Host name",
    "aria-label": "Search hosts by name",
    oninput: () => set("q", search.value.trim()),
  });
  const history = rangedHistory({
    label: "Memory of the fleet",
    signal,
    read: (range) => get("/v1/history", range, signal),
    series: [
      { key: "assigned", label: "Assigned", colour: "--assigned", dash: [5, 4] },
      { key: "footprint", label: "Footprint", colour: "--used", area: true },
      { key: "available", label: "Available", colour: "--reported" },
      { key: "headroom", label: "Headroom", colour: "--good" },
      { key: "nominal_headroom", label: "Nominal headroom", colour: "--muted", dash: [2, 3] },
    ],
  });
  const body = h(
    "div",
    { classes: "columns" },
    h(
      "div",
      { classes: "stack" },
      h(
        "section",
        { classes: "panel", "aria-labelledby": "hosts-heading" },
        h(
          "div",
          { classes: "panel-head" },
          h("h2", { id: "hosts-heading" }, "Hosts"),
          shownCount,
          h(
            "div",
            { classes: "toolbar" },
            search,
            choice("State", "state", STATES),
            choice("Sort", "sort", Object.fromEntries(Object.entries(SORTS).map(([name, [text]]) => [name, text]))),
            choice(
              "Colour by",
              "colour",
              Object.fromEntries(Object.entries(METRICS).map(([name, { name: text }]) => [name, text])),
            ),
            h(
              "div",
              { classes: "switch", role: "group", "aria-label": "Show hosts as" },
              asButton("map", "Map"),
              asButton("table", "Table"),
            ),
          ),
        ),
        hosts,
        legend,
      ),
      history.element,
    ),
    h(
      "div",
      { classes: "side" },
      h(
        "section",
        { classes: "panel", "aria-labelledby": "most-heading" },
        h(
          "div",
          { classes: "panel-head" },
          h("h2", { id: "most-heading" }, "Most unreported memory"),
          h("a", { href: "#/vms", classes: "more" }, "All VMs"),
        ),
        mostProblem,
        most,
      ),
      h(
        "section",
        { classes: "panel", "aria-labelledby": "attention-heading" },
        h("div", { classes: "panel-head" }, h("h2", { id: "attention-heading" }, "Needs attention"), attentionNote),
        attention,
      ),
    ),
  );
  place.append(h("h1", null, "Fleet"), forbidden, key.element, body);

  function choice(label, name, options) {
    const select = h(
      "select",
      { onchange: () => set(name, select.value) },
      Object.entries(options).map(([value, text]) => h("option", { value, selected: chosen[name] === value }, text)),
    );
    return h("label", { classes: "inline" }, label, select);
  }

  function asButton(value, text) {
    return h(
      "button",
      {
        type: "button",
        "aria-pressed": String(chosen.as === value),
        "data-as": value,
        onclick: () => set("as", value),
      },
      text,
    );
  }

  function set(name, value) {
    chosen[name] = value;
    const usual = { sort: "name", colour: "headroom", as: "map" };
    remember({ [name]: value === usual[name] ? "" : value });
    for (const button of place.querySelectorAll("[data-as]"))
      button.setAttribute("aria-pressed", String(button.dataset.as === chosen.as));
    draw();
  }

  function wanted(host) {
    if (chosen.q && !host.name.toLowerCase().includes(chosen.q.toLowerCase())) return false;
    if (!chosen.state) return true;
    if (chosen.state === "admitting") return host.admitting && host.state === "fresh";
    return chosen.state === "trouble" ? trouble(host) !== "" : trouble(host) === chosen.state;
  }

  function draw() {
    const all = [...fleet.hosts.values()];
    drawFigures(all);
    const [, value, sign] = SORTS[chosen.sort];
    const shown = all.filter(wanted).sort((a, b) => compare(value(a), value(b), sign) || compare(a.name, b.name, 1));
    shownCount.textContent = shown.length === all.length ? `${all.length}` : `${shown.length} of ${all.length}`;
    if (chosen.as === "map") {
      map.update(shown, chosen.colour);
      if (hosts.firstChild !== map.element) fill(hosts, map.element);
      if (legend.dataset.of !== chosen.colour) fill(legend, mapLegend(chosen.colour));
      legend.dataset.of = chosen.colour;
    } else {
      table.update(shown);
      if (hosts.firstChild !== table.element) fill(hosts, table.element);
    }
    legend.hidden = chosen.as !== "map";
    body.classList.toggle("whole", chosen.as === "table");
    drawAttention(all);
    fill(forbidden, fleet.forbidden ? notYours(fleet.live.error) : null);
    body.hidden = key.element.hidden = fleet.forbidden;
  }

  function drawFigures(all) {
    const total = (name) => sum(all.map((host) => host[name]));
    const item = (name, field, text, more = {}) => {
      const { total: value, missing } = total(field);
      return {
        name,
        value: memory(value),
        note: known(value) && missing ? `${counted(missing, "host")} unknown` : null,
        title: text,
        ...more,
      };
    };
    const states = { fresh: 0, stale: 0, silent: 0 };
    for (const host of all) states[host.state] = (states[host.state] ?? 0) + 1;
    const late = states.stale + states.silent;
    const slots = total("slots").total;
    const nominal = total("nominal_slots").total;
    key.update([
      { name: "Hosts", value: count(all.length), note: late ? `${late} late` : "all report", kind: late ? "warn" : "" },
      { name: "VMs", value: count(total("domains").total) },
      item("Assigned", "assigned", "what the VMs were given"),
      item("Footprint", "footprint", "what they would cost without merging and swap"),
      item("Headroom", "headroom", "what may be promised to new VMs", { kind: "strong" }),
      {
        name: "More VMs",
        value: count(slots),
        note: known(nominal) ? `nominal ${count(nominal)}` : null,
        title: "of each host's slot size",
        kind: "strong",
      },
      ...tierFigure(all),
      item("Unreported", "unreported", "free in guests, still held by hosts"),
      item("Returned", "returned", "what hosts saw come back"),
      {
        name: "Promises held",
        value: promises?.hours ? percent(heldOf(promises), 2) : promises ? "not judged" : UNKNOWN,
        note: promises?.hours ? `of ${counted(promises.hours, "hour")} in 7 days` : null,
        title: "Hours of all hosts in which all could have been given that was promised as they began",
        kind: promises && promises.held < promises.hours ? "bad" : "",
      },
    ]);
  }

  /** What slower memory as large as each host's would give; nothing where no host has measured what is active. */
  function tierFigure(all) {
    const more = all.map(({ tier_gain: gain }) => (gain ? Math.floor(gain.vms - gain.without) : null));
    const { total, missing } = sum(more);
    if (!known(total)) return [];
    return [
      {
        name: "With a tier",
        value: `${counted(total, "VM")} more`,
        note: missing ? `${counted(missing, "host")} unknown` : null,
        title: "VMs like those of now, with slower memory as large as what each host has for VMs",
      },
    ];
  }

  function drawAttention(all) {
    const order = ["silent", "pressed", "stale"];
    const troubled = all
      .filter((host) => order.includes(trouble(host)))
      .sort(
        (a, b) =>
          order.indexOf(trouble(a)) - order.indexOf(trouble(b)) ||
          compare(a.psi, b.psi, -1) ||
          compare(a.name, b.name, 1),
      );
    attentionNote.textContent = troubled.length > TOP ? `${TOP} of ${troubled.length}` : "";
    const text = JSON.stringify(troubled.slice(0, TOP).map((host) => [host.name, trouble(host), host.rungs, host.psi]));
    if (attention.dataset.shown === text) return;
    attention.dataset.shown = text;
    fill(
      attention,
      troubled.length
        ? troubled
            .slice(0, TOP)
            .map((host) =>
              h(
                "li",
                null,
                h("a", { href: to("hosts", host.name) }, host.name),
                badge(trouble(host), trouble(host) === "stale" ? "warn" : "bad", TROUBLE[trouble(host)][0]),
                h(
                  "span",
                  { classes: "small" },
                  trouble(host) === "pressed"
                    ? `${host.rungs.at(-1)}, ${percent(host.psi, 0)}`
                    : "promises nominal only",
                ),
              ),
            )
        : h(
            "li",
            { classes: "empty" },
            all.length ? "No host is silent, stale or under pressure." : "No host has reported yet.",
          ),
    );
  }

  async function loadPromises() {
    try {
      ({ promises } = await get("/v1/promises", {}, signal));
      redraw();
    } catch (error) {
      if (error.name !== "AbortError") promises = undefined; // nobody knows now
    }
  }

  async function loadMost() {
    try {
      const { domains } = await get(
        "/v1/domains",
        {
          sort: "unreported:desc",
          limit: TOP,
          fields: "uuid,name,host,assigned,resident,reported,unreported,shared,swap",
        },
        signal,
      );
      const seen = domains.filter((domain) => known(domain.unreported));
      const largest = Math.max(...seen.map((domain) => domain.assigned), 0);
      fill(mostProblem);
      const text = JSON.stringify(seen);
      if (most.dataset.shown === text) return; // one of them may just be pressed
      most.dataset.shown = text;
      fill(
        most,
        seen.length
          ? seen.map((domain) =>
              h(
                "li",
                null,
                h("a", { href: to("vms", domain.uuid) }, domain.name),
                h("span", { classes: "small" }, domain.host),
                h("b", { classes: "number" }, `${gib(domain.unreported, 1)} GiB`),
                memoryBar(domain, largest),
              ),
            )
          : h("li", { classes: "empty" }, "No VM is known to hold unreported memory."),
      );
    } catch (error) {
      if (error.name !== "AbortError") fill(mostProblem, problem(error));
    }
  }

  fleet.addEventListener("hosts", redraw, { signal });
  fleet.addEventListener("hosts", readMost, { signal });
  fleet.addEventListener("hosts", readPromises, { signal });
  fleet.addEventListener("state", redraw, { signal });
  draw();
  loadMost();
  if (fleet.hosts.size) loadPromises(); // else with the first of them: who may not see hosts need not ask
}

function notYours(error) {
  return h(
    "div",
    { classes: "problem", role: "alert" },
    h("h3", null, "This token does not see hosts"),
    h("p", null, error?.detail),
    h(
      "p",
      null,
      "A token of one project sees the VMs of that project: ",
      h("a", { href: "#/vms" }, "go to your VMs"),
      ".",
    ),
  );
}
