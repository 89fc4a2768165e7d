"""`memhint hosts`, `memhint host show`, `memhint host history`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memhint.cli.fleet.base import FleetShow, Rows, host_name, usage
from memhint.cli.fleet.columns import Column, numbers, sizes, text, words
from memhint.cli.fleet.points import HOST_POINTS, PointList
from memhint.cli.fleet.promises import held_of
from memhint.cli.fleet.records import gaps_of, lever_line
from memhint.cli.fleet.watch import WatchedList
from memhint.cli.table import Mib, Number
from memhint.cli.tier import add_tier, bound_words, tier_rows
from memhint.cli.words import host_gap_lines, moment, size
from memhint.client.client import Changes, Client, Item, Listing
from memhint.client.follow import HostsChanged, News
from memhint.objects.counted import counted
from memhint.objects.summary import HOST_SORT_KEYS


def _within(show: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """Shows one member of a record that may be absent."""
    return lambda found: show(None if found is None else found.get(name))


_ACTIVE = Column("load", "Active", _within(Mib, "active"))
_WITH_TIER = Column("tier_gain", "With tier", _within(Number, "vms"))
_TIER = (
    *words(("name", "Host"), "state"),
    *numbers(("domains", "VMs")),
    Column("load", "Used", _within(Mib, "used")),
    _ACTIVE,
    Column("tier_gain", "Without tier", _within(Number, "without")),
    _WITH_TIER,
    Column("tier_gain", "Bounded by", lambda found: "-" if found is None else bound_words(found.get("bound"))),
)


class HostList(WatchedList):
    """List the hosts of the fleet, and what may be promised on each."""

    examples = """\
examples:
  %(prog)s                                      every host, sizes in MiB
  %(prog)s --sort headroom:desc --limit 10      where most fits
  %(prog)s --sort psi:desc --watch              live, the ones under pressure first
  %(prog)s -f json | jq -r '.[] | select(.state != "fresh").name'
  %(prog)s -f value -c name -c headroom         bytes, for scripts
  %(prog)s --tier 512GiB                        what so much slower memory would give each host's VMs

Headroom is what may be promised now by what VMs really need, Nominal by what they were given. A host that is not fresh
promises no more than Nominal. A dash is an unknown value. With tier is how many VMs
like its own a host would hold if it had slower memory as well: as much as it has for VMs, or what --tier says. It is
unknown where active memory is not measured.
"""
    member, key, sort_keys = "hosts", "name", HOST_SORT_KEYS
    columns = (
        *words(("name", "Host"), "state"),
        *numbers(("domains", "VMs")),
        *sizes(
            "pool",
            "assigned",
            "footprint",
            "resident",
            "available",
            ("swap_used", "Swap"),
            ("ksm_saving", "KSM saves"),
            "reported",
            "unreported",
            "returned",
            "headroom",
            ("nominal_headroom", "Nominal"),
        ),
        *words("bound"),
        *numbers(("slots", "More VMs"), ("nominal_slots", "Nominal VMs"), ("psi", "PSI %")),
        *words(("admitting", "Admits"), ("rungs", "Ladder"), "agent"),
        *numbers("gaps"),
        *words("provider"),
        _ACTIVE,
        _WITH_TIER,
    )
    short = (
        "name",
        "state",
        "domains",
        "pool",
        "assigned",
        "resident",
        "unreported",
        "headroom",
        "nominal_headroom",
        "slots",
        "psi",
        "admitting",
        "rungs",
    )

    def add_filters(self, parser: argparse.ArgumentParser) -> None:
        """The tier to tell of."""
        add_tier(parser, " each host", unsaid="as much as it has for VMs")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Column names and rows."""
        if parsed_args.watch and parsed_args.tier is not None:
            raise usage("--watch shows each host with a tier as large as its memory for VMs: leave --tier away")
        return super().take_action(parsed_args)

    def shown_columns(self, parsed_args: argparse.Namespace) -> Sequence[Column]:
        """With a tier those that tell of it."""
        if parsed_args.tier is None or parsed_args.long or parsed_args.columns:
            return super().shown_columns(parsed_args)
        return _TIER

    def items(self, client: Client, parsed_args: argparse.Namespace) -> Iterator[Item]:
        """The list as it is now."""
        return client.hosts(sort=parsed_args.sort, limit=parsed_args.limit, tier=parsed_args.tier)

    def everything(self, client: Client, parsed_args: argparse.Namespace) -> Listing:
        """All hosts."""
        return client.list_hosts()

    def stream(self, client: Client, listing: Listing) -> Iterator[News]:
        """The stream tells of hosts from the list on."""
        return client.follow(listing.changed)

    def changes(self, client: Client, parsed_args: argparse.Namespace, since: str, news: News) -> Changes | None:
        """What the stream says."""
        return Changes(news.hosts, news.deleted, since) if isinstance(news, HostsChanged) else None


class HostShow(FleetShow):
    """Show a host: every term of its headroom, its levers and its ladder."""

    examples = """\
examples:
  %(prog)s compute-7
  %(prog)s compute-7 --tier 512GiB              and what so much slower memory would give its VMs
  %(prog)s compute-7 -f json | jq .capacity
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("host", metavar="HOST", type=host_name, help="its name")
        add_tier(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Field names and values."""
        found = self.client().host(parsed_args.host, tier=parsed_args.tier)
        return self.one(parsed_args, found, _rows(found))


class HostHistory(PointList):
    """Show a host's key numbers over time."""

    examples = """\
examples:
  %(prog)s compute-7                            the last day
  %(prog)s compute-7 --since 2h --step 5m       the worst of each five minutes
"""
    columns = HOST_POINTS

    def points(self, client: Client, parsed_args: argparse.Namespace, **when: float | int | None) -> Sequence[Item]:
        """Oldest first."""
        return client.host_history(parsed_args.host, **when)

    def add_subject(self, parser: argparse.ArgumentParser) -> None:
        """The host."""
        parser.add_argument("host", metavar="HOST", type=host_name, help="its name")


def promise_line(one: Mapping[str, Any] | None) -> str:
    """How a host kept its promises."""
    if not one or not one.get("hours"):
        return "no hour is judged yet"
    told = f"{held_of(one)} since {moment(one.get('since'))} UTC"
    worst = next(iter(one.get("worst") or ()), None)
    if worst is None or worst["came"] >= worst["promised"]:
        return told
    gave = size(max(0, worst["came"]))
    return f"{told}; at worst {size(worst['promised'])} were promised and {gave} were there, {moment(worst['at'])} UTC"


_SAID_ABOVE = ("headroom", "bound")  # as of now: of an old report less may be promised than it has
_TERMS: Mapping[str, Callable[[Any], str]] = {
    "storm": "{} %".format,
    "max_ratio": "{:g}".format,
    "evidence": text,
    "together": text,
    "blind": text,
}
"""The terms that are no sizes."""


def _admitting(one: Item) -> str:
    if one.get("state") != "fresh":
        return f"no: its report is {one.get('state')}"
    return f"{text(one.get('admitting'))}{': ' + one['detail'] if one.get('detail') else ''}"


def _rows(one: Item) -> dict[str, str]:
    reclaimable = {name: found for name, found in (one.get("reclaimable") or {}).items() if found is not None}
    rows = {
        "Host": text(one.get("name")),
        "State": f"{one.get('state')}, report of {moment(one.get('at'))} UTC, every {one.get('period')} s",
        "Agent": f"{text(one.get('agent'))}, epoch {one.get('epoch')}, sequence {one.get('sequence')}",
        "Provider": text(one.get("provider")),
        "Pool": f"{size(one.get('pool'))}, {size(one.get('reserve'))} of it kept",
        "Available": f"{size(one.get('available'))}, {size(one.get('swap_used'))} swapped",
        "Assigned": f"{size(one.get('assigned'))} to {counted(one.get('domains'), 'VM')}",
        "Footprint": f"{size(one.get('footprint'))}, {size(one.get('resident'))} resident",
        "Headroom": f"{size(one.get('headroom'))}, bounded by {one.get('bound')}",
        "Nominal": size(one.get("nominal_headroom")),
        f"More VMs of {size(one.get('slot'))}": f"{one.get('slots')} measured, {one.get('nominal_slots')} nominal",
        "Admitting": _admitting(one),
        "Pressure": "-" if one.get("psi") is None else f"{one['psi']:.1f} % some, over 10 s",
        "Dedup (KSM)": f"saves {size(one.get('ksm_saving'))}",
        "Reported": size(one.get("reported")),
        "Unreported": size(one.get("unreported")),
        "Returned": size(one.get("returned")),
        "Reclaimable": "\n".join(f"at most {size(found)} by {name}" for name, found in reclaimable.items())
        or "unknown",
    }
    rows |= tier_rows(one.get("tier"))
    rows["Promise"] = promise_line(one.get("promise"))
    ladder = [
        f"{rung.get('rung')} since {moment(rung.get('since'))} UTC: {rung.get('detail')}"
        for rung in one.get("ladder") or ()
    ]
    rows["Ladder"] = "\n".join(ladder) or "no rung entered"
    for name, value in (one.get("capacity") or {}).items():
        if name not in _SAID_ABOVE:
            rows[f"Term {name}"] = text(value) if value is None else _TERMS.get(name, size)(value)
    for lever in one.get("levers") or ():
        rows[f"Lever {lever.get('lever')}"] = lever_line(lever)
    rows["Gaps"] = host_gap_lines(gaps_of(one), one.get("domains_with_gaps") or 0, f" on {text(one.get('name'))}")
    return rows
