// A dry run of placement: where would so many VMs go, who refuses, and why. Nothing is changed.

import { call } from "../lib/api.js";
import { announce, fill, h } from "../lib/dom.js";
import { remember } from "../lib/route.js";
import { count, counted, GIB } from "../lib/units.js";
import { badge } from "../parts/badge.js";
import { hostColumn, sizeColumn } from "../parts/columns.js";
import { figures } from "../parts/figures.js";
import { problem } from "../parts/problem.js";
import { dataTable } from "../parts/table.js";

export function planView({ place, title, query, signal }) {
  title("Plan");
  const number = (name, usual, more) =>
    h("input", {
      type: "number",
      name,
      value: Number(query.get(name)) > 0 ? query.get(name) : usual,
      required: true,
      ...more,
    });
  const vms = number("count", "20", { min: "1", max: "100000", step: "1" });
  const size = number("gib", "4", { min: "0.0625", step: "any" });
  const outcome = h("div", { classes: "stack" });
  const key = figures("The plan in figures");
  const reasons = h("ul", { classes: "plain reasons" });
  const table = dataTable({
    caption: "Hosts of the plan",
    id: (one) => one.name,
    sort: { key: "placed", descending: true },
    empty: "No host is known.",
    columns: [
      hostColumn("name"),
      {
        key: "placed",
        label: "Would go here",
        number: true,
        value: (one) => one.placed,
        text: (one) => count(one.placed),
      },
      {
        key: "slots",
        label: "Fit by measure",
        number: true,
        value: (one) => one.slots,
        text: (one) => count(one.slots),
      },
      {
        key: "nominal_slots",
        label: "Fit nominally",
        number: true,
        value: (one) => one.nominal_slots,
        text: (one) => count(one.nominal_slots),
      },
      sizeColumn("headroom", "Headroom"),
      {
        key: "refusal",
        label: "Refuses",
        value: (one) => one.refusal?.reason ?? null,
        text: (one) => one.refusal?.reason ?? "",
        show: (one) => (one.refusal ? badge(one.refusal.reason, "bad") : ""),
      },
      { key: "detail", label: "Why", prose: true, sortable: false, text: (one) => one.refusal?.detail ?? "" },
    ],
  });
  const run = h("button", { type: "submit", classes: "primary" }, "Dry run");
  place.append(
    h("h1", null, "Plan"),
    h(
      "p",
      { classes: "lead" },
      "Where would new VMs go, which hosts refuse, and why? This is a dry run: nothing is changed and nothing is kept free.",
    ),
    h(
      "form",
      {
        classes: "panel line",
        onsubmit: (event) => {
          event.preventDefault();
          load();
        },
      },
      h("label", { classes: "inline" }, "VMs", vms),
      h("label", { classes: "inline" }, "of GiB", size),
      run,
    ),
    outcome,
  );

  async function load() {
    remember({ count: vms.value, gib: size.value });
    run.disabled = true;
    try {
      const body = { memory: Math.round(Number(size.value) * GIB), count: Number(vms.value) };
      const { plan } = (await call("POST", "/v1/plans", { body, signal })).data;
      draw(plan, body.count);
    } catch (error) {
      if (error.name !== "AbortError") fill(outcome, problem(error, load));
    } finally {
      run.disabled = false;
    }
  }

  function draw(plan, wanted) {
    const refusing = plan.hosts.filter((one) => one.refusal);
    key.update([
      {
        name: "Placed",
        value: `${count(plan.placed)} of ${count(wanted)}`,
        kind: plan.placed < wanted ? "warn" : "strong",
        note: plan.placed < wanted ? "the rest finds no place" : null,
      },
      { name: "Nominal accounting", value: count(plan.nominal), note: `of ${count(wanted)}` },
      { name: "Hosts used", value: count(plan.hosts.filter((one) => one.placed > 0).length) },
      { name: "Hosts that refuse", value: count(refusing.length), note: `of ${count(plan.hosts.length)}` },
    ]);
    const counts = new Map();
    for (const { refusal } of refusing) counts.set(refusal.reason, (counts.get(refusal.reason) ?? 0) + 1);
    fill(
      reasons,
      [...counts]
        .sort((a, b) => b[1] - a[1])
        .map(([reason, seen]) => h("li", null, badge(reason, "bad"), ` ${counted(seen, "host")}`)),
    );
    table.update(plan.hosts);
    if (outcome.firstChild !== key.element) {
      fill(
        outcome,
        key.element,
        h(
          "section",
          { classes: "panel", "aria-labelledby": "plan-heading" },
          h("div", { classes: "panel-head" }, h("h2", { id: "plan-heading" }, "By host"), reasons),
          table.element,
        ),
      );
    }
    announce(
      `${plan.placed} of ${counted(wanted, "VM")} placed, ${counted(refusing.length, "host refuses", "hosts refuse")}`,
    );
  }

  if (query.has("count")) load();
}
