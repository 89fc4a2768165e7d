// Columns that several tables have, for `dataTable`. `more` replaces what a table has otherwise.

import { h } from "../lib/dom.js";
import { to } from "../lib/route.js";
import { gib } from "../lib/units.js";
import { shortly } from "../lib/words.js";
import { memoryBar } from "./memory_bar.js";

/** Bytes under a name of the row's own. */
export function sizeColumn(key, label, { digits, ...more } = {}) {
  return {
    key,
    label,
    unit: "GiB",
    number: true,
    value: (row) => row[key],
    text: (row) => gib(row[key], digits),
    ...more,
  };
}

/** The host of a row; `key` is where the row has its name. */
export function hostColumn(key, more = {}) {
  return {
    key,
    label: "Host",
    text: (row) => row[key] ?? "",
    show: (row) => (row[key] ? h("a", { href: to("hosts", row[key]) }, row[key]) : ""),
    ...more,
  };
}

/** The VM that a row is about, or what stands there when it is about none. */
export function subjectColumn(none, more = {}) {
  return {
    key: "domain",
    label: "VM",
    text: (row) => row.domain_name ?? row.domain ?? "",
    show: (row) =>
      row.domain
        ? h("a", { href: to("vms", row.domain), title: row.domain }, row.domain_name ?? shortly(row.domain))
        : none,
    ...more,
  };
}

/** A VM's memory; `largest` gives the assigned memory that fills the whole width. */
export function barColumn(largest) {
  const shown = ["assigned", "resident", "unreported", "reported", "shared", "swap"];
  return {
    key: "bar",
    label: "Memory",
    sortable: false,
    text: (row) => JSON.stringify([largest(), ...shown.map((key) => row[key])]),
    show: (row) => memoryBar(row, largest()),
  };
}
