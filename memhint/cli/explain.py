"""`memhint explain`: where every MiB of the headroom, or of one VM's demand, comes from."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from cliff.show import ShowOne

from memhint.cli import words
from memhint.cli.base import HostCommand
from memhint.cli.errors import CliError, Exit
from memhint.cli.find import demand_of, find_domain, name_of
from memhint.cli.plan import show_levers
from memhint.cli.table import Mib, Table, clean
from memhint.cli.tier import BOUNDS, add_tier
from memhint.objects.codec import to_plain
from memhint.objects.counted import counted
from memhint.objects.exclusion import Mechanism
from memhint.objects.plan import Bound, DemandReason
from memhint.objects.report import DomainReport, Report
from memhint.objects.tier_sizing import TierSizing
from memhint.planner.exclusions import forbidden
from memhint.planner.explain import (
    Step,
    capacity_steps,
    cost_of,
    demand_steps,
    earned_words,
    spare_words,
    terms,
    tightest_term,
)
from memhint.planner.ratio import ratio
from memhint.planner.settings import PlannerSettings
from memhint.planner.tier_sizing import tier_sizing

HOST = "host"


class Explain(HostCommand, ShowOne):
    """Show where every MiB of the headroom comes from, or why one VM counts as it does."""

    examples = """\
examples:
  memhint explain                  this host: how the headroom comes about, and what bounds it
  memhint explain --tier 512GiB    the same, and what a slower tier of that size would give these VMs
  memhint explain web-1            one VM: its demand, its policy, what may be had from it, what it costs
  memhint explain web-1 --json     the same for a program, in bytes
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument(
            "subject", metavar="DOMAIN|HOST", nargs="?", help="a VM's name or UUID, or this host's name; default: host"
        )
        add_tier(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        """Field names and values for machines; the tables are made of the report."""
        from memhint.agent.settings import planner_settings

        conf = self.conf()
        with self.store(conf) as store:
            self._report = self.fresh(conf, store)
        self._settings = planner_settings(conf)
        self._domain = _domain(self._report, parsed_args.subject)
        if self._domain is not None and parsed_args.tier is not None:
            raise CliError(Exit.USAGE, "--tier is told of a host: leave the VM out")
        if self._domain is None:
            return self.dict2columns(host_of(self._report, self._settings, parsed_args.tier))
        return self.dict2columns(domain_of(self._report, self._domain, self._settings))

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]) -> int:
        """Tables for people."""
        table = self.table(parsed_args)
        if table is None:
            return super().produce_output(parsed_args, column_names, data)
        if self._domain is None:
            self._show_host(table, parsed_args)
        else:
            self._show_domain(table, parsed_args, self._domain)
        return 0

    def _show_host(self, table: Table, parsed_args: argparse.Namespace) -> None:
        report, out = self._report, self.app.stdout
        found = host_of(report, self._settings, parsed_args.tier)
        capacity = report.plan.capacity
        out.write(f"Headroom of {report.host}: {words.headroom(capacity)}\n")
        out.write(f"Admitting: {clean(words.admitting(report.plan.pressure))}\n")
        out.write(f"As an allocation ratio of pool less reserve: {found['ratio']:g} (at most {found['max_ratio']:g})\n")
        if found["earned"] is not None:
            out.write(f"Earned: {found['earned']}\n")
        self._steps(table, parsed_args, capacity_steps(capacity))
        tightest = tightest_term(capacity)
        bounds = [
            (str(bound), Mib(value), "bounds" if bound is tightest else "", words.BOUNDS[bound])
            for bound, value in terms(capacity).items()
        ]
        table.emit_list(("Rule", "MiB", "", "Meaning"), bounds, out, parsed_args)
        out.write(f"Spare: {clean(found['spare'])}\n")
        rows = [
            (
                name_of(report, one.uuid),
                Mib(one.assigned),
                Mib(one.footprint),
                Mib(one.demand),
                Mib(one.assigned - one.demand if one.reason is not DemandReason.OUTSIDE else 0),
                words.why(one),
            )
            for one in report.plan.demands
        ]
        if rows:
            table.emit_list(("VM", "Assigned", "Footprint", "Demand", "Not counted", "Why"), rows, out, parsed_args)
        self._show_tier(table, parsed_args)

    def _show_tier(self, table: Table, parsed_args: argparse.Namespace) -> None:
        found, out = _sizing(self._report, parsed_args.tier), self.app.stdout
        if found is None:
            if parsed_args.tier is not None:
                out.write("What a tier would give is not known: [active] source has not read what any VM uses.\n")
            return
        load = found.load
        out.write(
            f"Active within a minute: {Mib(load.active).human_readable()} MiB of "
            f"{Mib(load.used).human_readable()} that {counted(load.vms, 'VM has', 'VMs have')} "
            f"({load.read} of them read; others count in full), on {Mib(load.dram).human_readable()} MiB for VMs\n"
        )
        rows = [(Mib(one.tier), f"{one.vms:.1f}", f"{one.without:.1f}", BOUNDS[one.bound]) for one in found.gains]
        table.emit_list(("Slower tier", "VMs like these", "Without it", "Bounded by"), rows, out, parsed_args)

    def _show_domain(self, table: Table, parsed_args: argparse.Namespace, one: DomainReport) -> None:
        report, out = self._report, self.app.stdout
        found = domain_of(report, one, self._settings)
        demand = demand_of(report, one)
        if demand is None:
            out.write(f"{clean(one.observation.name)} is not in this plan.\n")
            return
        out.write(f"Demand of {clean(one.observation.name)}: {Mib(demand.demand).human_readable()} MiB of ")
        out.write(f"{Mib(demand.assigned).human_readable()} assigned, {clean(words.why(demand))}\n")
        self._steps(table, parsed_args, demand_steps(demand, one.observation))
        cost, bound = found["cost"], Bound(found["bound"])
        out.write(
            f"Takes {Mib(cost['counted']).human_readable()} MiB of the host's headroom, and "
            f"{Mib(cost['spare']).human_readable()} MiB of spare (bounded by {bound}); "
            f"{Mib(cost['given']).human_readable()} MiB of what it was given count for others.\n"
        )
        policy = [(name, words.policy_value(name, setting)) for name, setting in one.policy.settings.items()]
        table.emit_list(("Policy", "Value"), policy, out, parsed_args)
        ways = [(way, "yes" if not why else f"no: {why['detail']}") for way, why in found["ways"].items()]
        table.emit_list(("Way", "May be had by it"), ways, out, parsed_args)
        show_levers(table, report, one.levers, out, parsed_args)

    def _steps(self, table: Table, parsed_args: argparse.Namespace, steps: Iterable[Step]) -> None:
        rows = [(step.term, Mib(step.amount), Mib(step.left), step.why) for step in steps]
        table.emit_list(("Term", "MiB", "Leaves", "Meaning"), rows, self.app.stdout, parsed_args)


def host_of(report: Report, settings: PlannerSettings, tier: int | None = None) -> dict[str, Any]:
    """A host's headroom for machines: bytes.

    :param tier: bytes of slower memory, to be told what it would give
    """
    capacity, demands = report.plan.capacity, report.plan.demands
    outside = {one.uuid for one in demands if one.reason is DemandReason.OUTSIDE}
    given = sum(one.observation.facts.memory for one in report.domains if one.observation.uuid not in outside)
    most = settings.max_ratio if capacity.max_ratio is None else capacity.max_ratio
    spare = spare_words(capacity, demands, settings)
    sizing = _sizing(report, tier)
    for one in demands:
        spare = spare.replace(f"{{{one.uuid}}}", name_of(report, one.uuid))
    return {
        "subject": HOST,
        "host": report.host,
        "at": report.at,
        "headroom": capacity.headroom,
        "bound": str(capacity.bound),
        "tightest": str(tightest_term(capacity)),
        "ratio": ratio(given, capacity.headroom, capacity.pool, capacity.reserve, most),
        "max_ratio": most,
        "earned": earned_words(capacity),
        "steps": to_plain(capacity_steps(capacity)),
        "rules": {str(bound): value for bound, value in terms(capacity).items()},
        "spare": spare,
        **to_plain(report.plan.pressure),  # admitting, and the detail
        "domains": [{"name": name_of(report, one.uuid), **to_plain(one)} for one in demands],
        "tier": to_plain(sizing) if sizing else None,
    }


def domain_of(report: Report, one: DomainReport, settings: PlannerSettings) -> dict[str, Any]:
    """One VM for machines: bytes."""
    demand, capacity = demand_of(report, one), report.plan.capacity
    excluded = demand.excluded if demand else ()
    ways = {way: forbidden(excluded, way) for way in Mechanism}
    return {
        "subject": "domain",
        "name": one.observation.name,
        "uuid": one.observation.uuid,
        "host": report.host,
        "at": report.at,
        "demand": to_plain(demand) if demand else None,
        "steps": to_plain(demand_steps(demand, one.observation)) if demand else [],
        "cost": to_plain(cost_of(demand, capacity, report.plan.demands, settings)) if demand else None,
        "bound": str(tightest_term(capacity)),
        "policy": to_plain(one.policy)["settings"],
        "ways": {str(way): to_plain(why) if why else None for way, why in ways.items()},
        "levers": to_plain(one.levers),
    }


def _sizing(report: Report, tier: int | None) -> TierSizing | None:
    capacity = report.plan.capacity
    return tier_sizing([one.observation for one in report.domains], capacity.pool - capacity.reserve, tier)


def _domain(report: Report, subject: str | None) -> DomainReport | None:
    """The VM that is meant; None where it is the host. A VM comes first where it has the host's name."""
    names = {one.observation.name for one in report.domains}
    if subject is None or (subject in (HOST, report.host) and subject not in names):
        return None
    return find_domain(report, subject)
