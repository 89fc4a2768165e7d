"""`memhint plan`: every term behind the headroom, every VM's demand, and what is to be pulled."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from cliff.show import ShowOne

from memhint.cli import words
from memhint.cli.base import HostCommand
from memhint.cli.find import name_of
from memhint.cli.table import Mib, Table, clean
from memhint.objects.codec import to_plain
from memhint.objects.lever import LeverState
from memhint.objects.report import Report
from memhint.planner.explain import earned_words
from memhint.planner.storm import may_return

_TERMS = {
    "pool": "memory for VMs and all else, without huge page pools",
    "reserve": "kept back",
    "other": "peak of the host's other work",
    "assigned": "ΣA, what all VMs were given, with QEMU's overhead",
    "footprint": "ΣU, what all VMs cost without dedup and swap",
    "resident": "ΣRSS, what all VMs have in memory now",
    "want": "ΣD, what all VMs may come to need",
    "spare": "for VMs that grow faster than levers act",
    "backing": "usable disk swap and allow_unbacked",
    "model": "pool - reserve - other - want - spare",
    "now": "available - KSM saving - reserve - (want - resident) - spare",
    "back": "pool - reserve - other + backing - assigned",
    "available": "what the kernel could give now",
    "ksm_saving": "what unmerging would bring back",
    "ceiling": "max_ratio * (pool - reserve) - assigned",
    "node": "room of the tightest NUMA node that VMs are bound to",
}


class Plan(HostCommand, ShowOne):
    """Show the plan: the terms of the capacity formula, demands and actions."""

    examples = """\
examples:
  memhint plan                     the plan of the last cycle
  memhint plan --dry-run           one that is computed now; nothing is pulled
  memhint plan --json | jq .capacity.headroom
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="observe and plan now, without the agent, and show what each lever would answer; nothing is pulled",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        """Field names and values for machines; the tables are made of the report."""
        conf = self.conf()
        if parsed_args.dry_run:
            from memhint.agent.oneshot import dry_run

            self._report = dry_run(conf)
        else:
            with self.store(conf) as store:
                self._report = self.fresh(conf, store)
        return self.dict2columns(plan_of(self._report, dry_run=parsed_args.dry_run))

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]) -> int:
        """Three tables for people, four with verdicts."""
        table = self.table(parsed_args)
        if table is None:
            return super().produce_output(parsed_args, column_names, data)
        self._show(table, parsed_args)
        return 0

    def _show(self, table: Table, parsed_args: argparse.Namespace) -> None:
        report, out = self._report, self.app.stdout
        capacity = report.plan.capacity
        out.write(f"Headroom: {words.headroom(capacity)}\n")
        out.write(f"Admitting: {clean(words.admitting(report.plan.pressure))}\n")
        grade = may_return(capacity)
        if grade is not None:
            out.write(f"Storm: {grade} % of what VMs were given and are not expected to use may return at once\n")
        if capacity.storm is not None:
            out.write(f"Storm reserve: for {capacity.storm} % of all VMs\n")
        earned = earned_words(capacity)
        if earned is not None:
            out.write(f"Earned: {earned}\n")
        if report.plan.rungs:
            out.write(f"Ladder: {clean(words.ladder(report.plan.rungs))}\n")
        terms = [(name, Mib(getattr(capacity, name)), text) for name, text in _TERMS.items()]
        terms.append(("headroom", Mib(capacity.headroom), "what may be promised now"))
        terms.append(("nominal", Mib(words.nominal(capacity)), "pool - reserve - assigned, for comparison"))
        table.emit_list(("Term", "MiB", "Meaning"), terms, out, parsed_args)
        demands = [
            (name_of(report, one.uuid), Mib(one.assigned), Mib(one.footprint), Mib(one.demand), words.why(one))
            for one in report.plan.demands
        ]
        if demands:
            table.emit_list(("VM", "Assigned", "Footprint", "Demand", "Why"), demands, out, parsed_args)
        actions = [(name_of(report, one.subject), str(one.lever), one.desired, one.why) for one in report.plan.actions]
        if actions:
            table.emit_list(("Subject", "Lever", "Desired", "Why"), actions, out, parsed_args)
        else:
            out.write("No actions.\n")
        if parsed_args.dry_run:
            show_levers(table, report, all_levers(report), out, parsed_args)
            out.write("Dry run: nothing was pulled.\n")


def plan_of(report: Report, *, dry_run: bool) -> dict[str, Any]:
    """The plan for machines: bytes."""
    plan = to_plain(report.plan)
    return {
        "host": report.host,
        "at": report.at,
        "dry_run": dry_run,
        "capacity": {**plan["capacity"], "nominal_headroom": words.nominal(report.plan.capacity)},
        **plan["pressure"],  # admitting, and the detail
        "rungs": plan["rungs"],
        "demands": [{"name": name_of(report, one["uuid"]), **one} for one in plan["demands"]],
        "actions": [{"name": name_of(report, one["subject"]), **one} for one in plan["actions"]],
        "levers": [{"name": name_of(report, state.subject), **to_plain(state)} for state in all_levers(report)],
    }


def all_levers(report: Report) -> tuple[LeverState, ...]:
    """The host's levers and every VM's."""
    return (*report.levers, *(state for one in report.domains for state in one.levers))


def show_levers(
    table: Table, report: Report, states: Iterable[LeverState], out: Any, parsed_args: argparse.Namespace
) -> None:
    """A table of lever states with their verdicts."""
    rows = [
        (name_of(report, state.subject), str(state.lever), state.desired, str(state.observed), str(state.verdict))
        for state in states
    ]
    if rows:
        table.emit_list(("Subject", "Lever", "Desired", "Observed", "Verdict"), rows, out, parsed_args)
