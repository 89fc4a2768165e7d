"""`memhint status`: the host as it is, and what it has room for."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from cliff.show import ShowOne

from memhint.cli import words
from memhint.cli.base import HostCommand
from memhint.cli.find import unlisted
from memhint.objects.codec import to_plain
from memhint.objects.counted import counted
from memhint.objects.domain import DomainState
from memhint.objects.host import HostObservation
from memhint.objects.lever import LeverName
from memhint.objects.report import Report
from memhint.objects.summary import lacking
from memhint.objects.units import mib


class Status(HostCommand, ShowOne):
    """Show the host: its memory, its headroom, and how many more VMs fit."""

    examples = """\
examples:
  memhint status
  memhint status --json | jq .slots.measured

Measured is what fits by what VMs really need, nominal what fits by what they were given.
"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], Iterable[Any]]:
        """Field names and values."""
        conf = self.conf()
        with self.store(conf) as store:
            report = self.fresh(conf, store)
        now = self.app.clock()
        self.formatter = self.table(parsed_args) or self.formatter
        return self.dict2columns(_rows(report, now) if self.table(parsed_args) else status_of(report, now))


def status_of(report: Report, now: float) -> dict[str, Any]:
    """The status for machines: bytes, seconds, percent; null is unknown."""
    capacity, observation = report.plan.capacity, report.observation
    return {
        "host": report.host,
        "agent": report.agent,
        "epoch": report.epoch,
        "sequence": report.sequence,
        "at": report.at,
        "age": report.age(now),
        "period": report.period,
        "memory": to_plain(observation.memory),
        "pressure": to_plain(observation.pressure),
        "ksm": to_plain(observation.ksm),
        "ksm_saving": observation.ksm_saving if observation.ksm else None,
        "capacity": {**to_plain(capacity), "nominal_headroom": words.nominal(capacity)},
        "slots": {
            "size": report.slot,
            "measured": capacity.slots(report.slot),
            "nominal": _nominal_slots(report),
        },
        **to_plain(report.plan.pressure),  # admitting, and the detail
        "rungs": to_plain(report.plan.rungs),
        "reclaimable": reclaimable_of(report),
        "returned": _returned(report),
        "domains": {"total": None if unlisted(report) else len(report.domains), **_states(report)},
        "levers": to_plain(report.levers),
        "cost": to_plain(report.cost),
        "gaps": [to_plain(gap) for gap in (*report.gaps, *observation.gaps)],
        "domains_with_gaps": lacking(report.domains),
    }


def reclaimable_of(report: Report) -> dict[str, dict[str, int | None]]:
    """By lever: the bytes that could still come back, of the VMs that are running, and for how many that is unknown."""
    found: dict[str, dict[str, int | None]] = {}
    running = [one for one in report.domains if one.observation.state is DomainState.RUNNING]
    for lever in LeverName:
        told = [one.at_most for domain in running for one in domain.reclaimable if one.lever is lever]
        known = [size for size in told if size is not None]
        if told:
            found[lever] = {"at_most": sum(known) if known else None, "unknown": len(running) - len(known)}
    return found


def _returned(report: Report) -> int | None:
    known = [one.returned for one in report.domains if one.returned is not None]
    return sum(known) if known else None


def _states(report: Report) -> Mapping[str, int]:
    return Counter(str(one.observation.state) for one in report.domains)


def _nominal_slots(report: Report) -> int | None:
    capacity = report.plan.capacity
    return None if capacity.blind else capacity.nominal_slots(report.slot)


def _vms(report: Report) -> str:
    if unlisted(report):
        return "unknown: libvirt has not said which VMs there are"
    states = ", ".join(f"{count} {state}" for state, count in _states(report).items())
    return f"{len(report.domains)}: {states}" if states else "none"


def _rows(report: Report, now: float) -> dict[str, str]:
    capacity, memory = report.plan.capacity, report.observation.memory
    cost = report.cost
    return {
        "Host": report.host,
        "Memory": f"{memory.scope}: {mib(memory.available)} of {mib(memory.total)} MiB available",
        "Swap": f"{mib(memory.swap_used)} of {mib(memory.swap_total)} MiB used",
        "Pressure": _pressure(report.observation),
        "Dedup (KSM)": _ksm(report.observation),
        "Headroom": words.headroom(capacity),
        f"More VMs of {mib(report.slot)} MiB": (
            f"{capacity.slots(report.slot)} measured, {words.number(_nominal_slots(report))} nominal"
        ),
        "Admitting": words.admitting(report.plan.pressure),
        "Ladder": words.ladder(report.plan.rungs),
        "Reclaimable": _reclaimable(report),
        "Returned": words.size(_returned(report)),
        "VMs": _vms(report),
        "Report": f"{report.age(now):.0f} s old, every {report.period:g} s",
        "Agent": f"{100 * cost.cpu / report.period:.1f} % of a core, {mib(cost.rss)} MiB",
        "Gaps": words.host_gap_lines((*report.gaps, *report.observation.gaps), lacking(report.domains)),
    }


def _pressure(observation: HostObservation) -> str:
    if observation.pressure is None:
        return words.absent(observation.gaps, "pressure")
    seen = observation.pressure
    return f"{seen.some_avg10:.1f} % some, {seen.full_avg10:.1f} % full, over 10 s ({seen.scope})"


def _ksm(observation: HostObservation) -> str:
    if observation.ksm is None:
        return words.absent(observation.gaps, "ksm")
    state = "running" if observation.ksm.run == 1 else "stopped"
    if observation.ksm.empty_only:
        state += " for empty pages only"
    if observation.ksm.partitions:
        state += ", keeps projects apart"
    return f"{state}, saves {mib(observation.ksm_saving)} MiB"


def _reclaimable(report: Report) -> str:
    lines = []
    for lever, sums in reclaimable_of(report).items():
        unknown = f", unknown for {counted(sums['unknown'], 'VM')}" if sums["unknown"] else ""
        size = "unknown" if sums["at_most"] is None else f"at most {words.size(sums['at_most'])}"
        lines.append(f"{size} by {lever}{unknown if sums['at_most'] is not None else ''}")
    return "\n".join(lines) or "unknown"
