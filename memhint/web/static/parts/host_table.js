// Hosts as a table: the same as the map, for those who read or sort.

import { h } from "../lib/dom.js";
import { count, gib, percent, UNKNOWN } from "../lib/units.js";
import { BOUND, HOST_STATE } from "../lib/words.js";
import { badge } from "./badge.js";
import { hostColumn, sizeColumn } from "./columns.js";
import { dataTable } from "./table.js";

export function hostTable() {
  const size = (key, label, title) => sizeColumn(key, label, { title, digits: 1 });
  return dataTable({
    caption: "Hosts",
    id: (host) => host.name,
    empty: "No host matches. Clear the search or choose another state.",
    columns: [
      hostColumn("name"),
      {
        key: "state",
        label: "State",
        text: (host) => host.state,
        show: (host) => h("span", { title: HOST_STATE[host.state] }, badge(host.state)),
      },
      {
        key: "domains",
        label: "VMs",
        number: true,
        value: (host) => host.domains,
        text: (host) => count(host.domains),
      },
      size("pool", "Memory"),
      size("assigned", "Assigned"),
      size("footprint", "Footprint"),
      size("available", "Available"),
      size("headroom", "Headroom", "what may be promised to new VMs"),
      {
        key: "slots",
        label: "More VMs",
        number: true,
        title: "of this host's slot size; nominal in brackets",
        value: (host) => host.slots,
        text: (host) => `${count(host.slots)} (${count(host.nominal_slots)})`,
      },
      {
        key: "bound",
        label: "Bound by",
        text: (host) => host.bound ?? "",
        show: (host) => h("span", { title: BOUND[host.bound] }, host.bound ?? ""),
      },
      { key: "psi", label: "Pressure", number: true, value: (host) => host.psi, text: (host) => percent(host.psi) },
      {
        key: "rungs",
        label: "Ladder",
        value: (host) => host.rungs?.length ?? 0,
        text: (host) => host.rungs?.at(-1) ?? "",
      },
      sizeColumn("active", "Active", {
        title: "what the VMs touched within a minute",
        value: (host) => host.load?.active,
        text: (host) => gib(host.load?.active, 1),
      }),
      {
        key: "tier",
        label: "With a tier",
        title: "VMs like these, with slower memory as large as what the host has for VMs; without it in brackets",
        number: true,
        value: (host) => host.tier_gain && host.tier_gain.vms - host.tier_gain.without,
        text: ({ tier_gain: gain }) => (gain ? `${count(gain.vms)} (${count(gain.without)})` : UNKNOWN),
      },
      size("unreported", "Unreported"),
      size("returned", "Returned"),
    ],
  });
}
