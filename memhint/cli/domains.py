"""`memhint domains`: what each VM has, uses, and could give back."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cliff.lister import Lister

from memhint.cli import words
from memhint.cli.base import HostCommand
from memhint.cli.find import demand_of, find_domain, need_vms
from memhint.cli.table import Mib, Seconds, clean
from memhint.objects.active import ActiveMemory
from memhint.objects.codec import to_plain
from memhint.objects.counted import counted
from memhint.objects.discarded import BalloonReporting
from memhint.objects.domain import DeepMemory
from memhint.objects.lever import LeverName
from memhint.objects.levers import LEVERS, Figure
from memhint.objects.merging import Merging
from memhint.objects.report import DomainReport, Report
from memhint.objects.summary import is_fault

_LISTED = tuple((one, one.listed) for one in LEVERS.values() if one.listed is not None)
_SHORT = (
    *("Name", "State", "Assigned", "Resident", "Free", "Unreported", "Returned"),
    *(one.name.capitalize() for one, _ in _LISTED),
)
_WHOLE = ("json", "yaml")  # the formats that can hold a record within a record


class Domains(HostCommand, Lister):
    """List the VMs of this host, or show all that is known of one."""

    examples = """\
examples:
  memhint domains                  the VMs of this host, sizes in MiB
  memhint domains --long           with demand, sources, ages and wishes
  memhint domains web-1            everything known of one VM
  memhint domains web-1 --json     the same for a program, in bytes

A dash is an unknown value, never 0.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("domain", metavar="DOMAIN", nargs="?", help="name or UUID; default: all")
        parser.add_argument("--long", action="store_true", help="all columns")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        """Column names and rows."""
        conf = self.conf()
        with self.store(conf) as store:
            report = self.fresh(conf, store)
        need_vms(report)
        chosen = (
            [find_domain(report, parsed_args.domain)]
            if parsed_args.domain
            else sorted(report.domains, key=lambda one: one.observation.name)
        )
        self._notes = [] if parsed_args.domain else [note for one in chosen for note in _notes(one)]
        if parsed_args.long and not parsed_args.domain:
            self._notes += [note for one in chosen for note in _gaps(one)]
        now = self.app.clock()
        table = self.table(parsed_args)
        self.formatter = table or self.formatter
        if parsed_args.formatter in _WHOLE:
            records = [domain_of(report, one, now) for one in chosen]
            return tuple(records[0]) if records else (), [tuple(record.values()) for record in records]
        if parsed_args.domain and table:
            return ("Field", "Value"), list(_details(report, chosen[0], now).items())
        rows = [_row(report, one, now) for one in chosen]
        names = tuple(rows[0]) if rows and (parsed_args.long or not table) else _SHORT
        return names, [tuple(row[name] for name in names) for row in rows]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        """The table, and under it what stands between a wish and its fulfilment."""
        rows = list(data)
        super().produce_output(parsed_args, column_names, rows)
        if self.table(parsed_args):
            if not parsed_args.domain:
                self.app.stdout.write("Memory in MiB.\n" if rows else "There are none.\n")
            for note in self._notes:
                self.app.stdout.write(f"{clean(note)}\n")
        return 0


def domain_of(report: Report, one: DomainReport, now: float) -> dict[str, Any]:
    """A VM for machines: bytes and seconds, null is unknown."""
    seen = one.observation
    plain = to_plain(seen)
    demand = demand_of(report, one)
    return {
        "name": seen.name,
        "uuid": seen.uuid,
        "state": str(seen.state),
        "assigned": seen.facts.memory,
        "resident": seen.resident,
        "footprint": seen.footprint,
        "demand": to_plain(demand) if demand else None,
        "guest": plain["guest"],
        "guest_age": _age(one, now),
        "returned": one.returned,
        "reclaimable": to_plain(one.reclaimable),
        "policy": to_plain(one.policy)["settings"],
        "levers": to_plain(one.levers),
        "balloon_actual": seen.balloon_actual,
        "process": plain["process"],
        "deep": plain["deep"],
        "guest_kernel": plain["guest_kernel"],
        "balloon_reporting": plain["balloon_reporting"],
        "reporting_check": plain["reporting_check"],
        "active": plain["active"],
        "merging": to_plain(one.merging),
        "facts": plain["facts"],
        "gaps": plain["gaps"],
    }


def _row(report: Report, one: DomainReport, now: float) -> dict[str, Any]:
    seen, guest = one.observation, one.observation.guest
    demand = demand_of(report, one)
    return {
        "Name": seen.name,
        "State": str(seen.state),
        "Assigned": Mib(seen.facts.memory),
        "Resident": Mib(seen.resident),
        "Footprint": Mib(seen.footprint),
        "Demand": Mib(demand.demand if demand else None),
        "Why": str(demand.reason) if demand else "-",
        "Free": Mib(guest.free if guest else None),
        "Reported": Mib(guest.reported if guest else None),
        "Unreported": Mib(guest.unreported if guest else None),
        "Source": str(guest.source) if guest else "-",
        "Age": Seconds(_age(one, now)),
        "Returned": Mib(one.returned),
        "Active": Mib(seen.active.active if seen.active else None),
        "Idle": Mib(seen.active.idle[-1].bytes if seen.active and seen.active.idle else None),
        "Discarded": Mib(seen.balloon_reporting.discarded.bytes if seen.balloon_reporting else None),
        "Claim": str(seen.reporting_check.agreement) if seen.reporting_check else "-",
        "Huge": words.part(seen.deep.huge_coverage(seen.deep.rss) if seen.deep else None),
        "Remote": words.part(seen.deep.remote if seen.deep else None),
        "Fast": words.part(seen.deep.on_fast(report.observation.tiers) if seen.deep else None),
        "Gaps": str(sum(map(is_fault, seen.gaps))),
    } | {
        title: shown
        for declared, figures in _LISTED
        for title, shown in (*_figures(one, figures), *_lever(one, declared.name).items())
    }


def _details(report: Report, one: DomainReport, now: float) -> dict[str, str]:
    seen, guest = one.observation, one.observation.guest
    demand = demand_of(report, one)
    rows = {
        "Name": seen.name,
        "UUID": seen.uuid,
        "State": str(seen.state),
        "Assigned": words.size(seen.facts.memory),
        "Resident": words.size(seen.resident),
        "Footprint": words.size(seen.footprint),
        "Demand": f"{words.size(demand.demand)} ({demand.reason}: {demand.detail})" if demand else "-",
        "Free": words.size(guest.free if guest else None),
        "Reported": words.size(guest.reported if guest else None),
        "Unreported": words.size(guest.unreported if guest else None),
        "Said by": f"{guest.source}, {words.seconds(_age(one, now))} ago" if guest else "-",
        "Guest kernel": (seen.guest_kernel.release if seen.guest_kernel else None) or "-",
        "Returned": words.size(one.returned),
    }
    small = seen.process is not None and seen.process.small_pages
    if seen.deep is not None:
        rows["Huge pages"] = _huge(seen.deep, now) + (", and it may have none" if small else "")
        rows["Remote memory"] = words.part(seen.deep.remote)
        if (fast := seen.deep.on_fast(report.observation.tiers)) is not None:
            rows["On fast nodes"] = words.part(fast)
    if seen.active is not None:
        rows |= _active(seen.active, now)
    if one.merging is not None:
        rows["Merged"] = _merging(one.merging)
    if seen.balloon_reporting is not None:
        rows["Discarded by QEMU"] = _discarded(seen.balloon_reporting)
    if seen.reporting_check is not None:
        rows["Claim of the guest"] = words.claim(seen.reporting_check)
    for item in one.reclaimable:
        age = "" if item.at is None else f", {words.seconds(max(0.0, now - item.at))} ago"
        size = "unknown" if item.at_most is None else f"at most {words.size(item.at_most)}"
        rows[f"Reclaimable by {item.lever}"] = f"{size} ({item.source}{age})"
    for state in one.levers:
        rows[f"Lever {state.lever}"] = words.lever_line(state.observed, state.desired, state.verdict)
    for name, setting in one.policy.settings.items():
        rows[f"Policy {name}"] = words.policy_value(name, setting)
    rows["Gaps"] = words.gap_lines(seen.gaps)
    return rows


def _huge(deep: DeepMemory, now: float) -> str:
    mapped = "" if deep.mappings is None else f", {words.part(deep.mappings.huge_coverage)} as KVM maps it"
    coverage = words.part(deep.huge_coverage(deep.rss))
    return f"{coverage} of what is resident{mapped} ({words.seconds(max(0.0, now - deep.at))} ago)"


def _active(found: ActiveMemory, now: float) -> dict[str, str]:
    """Rows of what is in use, and of what has not been for how long."""
    error = f" ± {words.size(found.error)}" if found.error else ""
    cost = f"{found.cpu_percent:.2f} % of a core"
    rows = {"Active": f"{words.size(found.active)}{error} ({found.source}, {cost})"}
    for one in found.idle:
        age = words.seconds(max(0.0, now - one.at))
        rows[f"Idle for {words.seconds(one.age)}"] = f"{words.size(one.bytes)} ({age} ago)"
    return rows


def _merging(found: Merging) -> str:
    text = words.size(found.merged)
    if found.zero:
        text += f", {words.size(found.zero)} of it empty pages"
    if found.partition:
        text += f", in partition {found.partition} of KSM"
    if found.breaks is not None:
        text += f", {counted(found.breaks, 'page')} of it broken up in a minute"
    if found.life is not None:
        text += f", a page stays merged for {words.seconds(found.life)}"
    if found.rests is not None:
        text += f"; left alone for {words.seconds(found.rests)}"
    return text


def _discarded(found: BalloonReporting) -> str:
    skipped = f", {words.size(found.skipped)} skipped" if found.skipped else ""
    return f"{words.size(found.discarded.bytes)} of {words.size(found.reported.bytes)} reported{skipped}"


def _age(one: DomainReport, now: float) -> float | None:
    guest = one.observation.guest
    return max(0.0, now - guest.at) if guest else None


def _figures(one: DomainReport, figures: Iterable[Figure]) -> Iterator[tuple[str, Any]]:
    """The columns of a lever's own numbers."""
    for figure in figures:
        record = getattr(one, figure.record)
        value = getattr(record, figure.field) if record is not None else None
        yield figure.title, Mib(value) if figure.in_bytes else "-" if value is None else str(value)


def _lever(one: DomainReport, lever: LeverName) -> dict[str, str]:
    """The columns of a lever: its three fields."""
    state = next((state for state in one.levers if state.lever is lever), None)
    seen = wish = verdict = "-"
    if state is not None:
        seen, wish, verdict = str(state.observed), state.desired, str(state.verdict.answer)
        if not state.verdict.ok:
            verdict += f" ({state.verdict.reason})"
    title = str(lever).capitalize()
    return {title: seen, f"{title} wish": wish, f"{title} verdict": verdict}


def _notes(one: DomainReport) -> list[str]:
    name, check = one.observation.name, one.observation.reporting_check
    notes = [f"{name}: {state.lever} {state.desired}: {state.verdict}" for state in one.levers if not state.verdict.ok]
    if check is not None and check.overclaims:
        notes.append(f"{name}: {words.claim(check)}")
    return notes


def _gaps(one: DomainReport) -> list[str]:
    """What could be had of it and is not: the gaps that are counted."""
    return [f"{one.observation.name}: gap {gap}" for gap in one.observation.gaps if is_fault(gap)]
