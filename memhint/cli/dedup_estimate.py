"""`memhint dedup estimate`: what merging equal pages would save and cost, before it is switched on."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from cliff.show import ShowOne

from memhint.cli.base import HostCommand
from memhint.cli.errors import CliError, Exit
from memhint.cli.find import find_domain, name_of, need_vms
from memhint.cli.table import Mib, Seconds
from memhint.objects.codec import to_plain
from memhint.objects.counted import counted
from memhint.objects.estimate import DedupEstimate as Estimate
from memhint.objects.estimate import GroupEstimate
from memhint.objects.report import Report
from memhint.objects.units import MIB, mib
from memhint.planner.dedup_auto import AutoSettings, pays

_VM_COLUMNS = ("VM", "Looked at", "Zero", "Within", "Across", "Changing", "Age")
_GROUP_COLUMNS = ("Project", "VMs", "Looked at", "Saving", "±", "Metadata", "KSM's CPU", "Scan", "Advice")
_SETTLE = 5.0  # seconds between two looks at a page, with --now


class DedupEstimate(HostCommand, ShowOne):
    """Show what merging equal pages would save, by VM and by project, and what KSM would cost."""

    examples = """\
examples:
  memhint dedup estimate                the agent's running estimate
  memhint dedup estimate web-1 web-2    of these VMs, and of the projects they belong to
  memhint dedup estimate --now          look at all pages now: 0.3 to 0.8 s of CPU for each GiB in use
  memhint dedup estimate --json | jq '.projects[] | {project, saving, recommended}'

Nothing is switched on. Only memory that is present is read, and no VM's footprint changes.
KSM's CPU with [dedup] advisor = adaptive is that of its fast pace, the most that it takes.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        parser.add_argument("domain", metavar="DOMAIN", nargs="*", help="name or UUID; default: all")
        parser.add_argument(
            "--now",
            action="store_true",
            help="look at every VM's pages now, without the agent and its CPU budget; takes some seconds",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        """Field names and values for machines; the tables are made of the report."""
        from memhint.agent.build_dedup import merge_settings

        conf = self.conf()
        if parsed_args.now:
            from memhint.agent.oneshot_dedup import estimate_now

            report = estimate_now(conf, min(_SETTLE, conf.dedup.estimate_settle))
        else:
            with self.store(conf) as store:
                report = self.fresh(conf, store)
        need_vms(report)
        if report.dedup is None:
            raise CliError(
                Exit.REFUSED, "the agent estimates nothing: [dedup] estimate_cpu_percent is 0; --now looks at once"
            )
        chosen = {find_domain(report, one).observation.uuid for one in parsed_args.domain}
        self._report = report
        self._found = only(report.dedup, chosen) if chosen else report.dedup
        self._settings = merge_settings(conf).auto
        return self.dict2columns(estimate_of(report, self._found, self._settings))

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]) -> int:
        """Two tables for people."""
        table = self.table(parsed_args)
        if table is None:
            return super().produce_output(parsed_args, column_names, data)
        report, found, out = self._report, self._found, self.app.stdout
        now = self.app.clock()
        vms = [
            (
                name_of(report, one.uuid),
                Mib(one.looked),
                Mib(one.zero),
                Mib(one.within),
                Mib(one.across),
                Mib(one.changed),
                Seconds(max(0.0, now - one.at)),
            )
            for one in sorted(found.vms, key=lambda one: name_of(report, one.uuid))
        ]
        if vms:
            table.emit_list(_VM_COLUMNS, vms, out, parsed_args)
        groups = [
            (
                project_name(report, one),
                str(len(one.members)),
                Mib(one.looked),
                Mib(one.saving),
                Mib(one.error),
                Mib(one.cost.metadata),
                f"{one.cost.cpu_percent:.0f} %",
                f"{one.cost.scan_seconds:.0f} s",
                advice(one, self._settings),
            )
            for one in found.groups
        ]
        if groups:
            table.emit_list(_GROUP_COLUMNS, groups, out, parsed_args)
        if found.waiting:
            names = sorted(name_of(report, uuid) for uuid in found.waiting)
            out.write(f"Not looked at yet: {', '.join(names)}\n")
        if not (vms or found.waiting):
            out.write("No VM here that KSM could merge.\n")
        if found.elapsed > 0:
            out.write(f"Looking took {found.cpu:.1f} s of CPU, {100 * found.cpu / found.elapsed:.2f} % of a core.\n")
        out.write(f"{made_by(found)}\n")
        out.write("Memory in MiB. What merging saves raises no headroom, and a write brings each page back.\n")
        return 0


def only(estimate: Estimate, uuids: set[str]) -> Estimate:
    """The part of an estimate that is about these VMs; projects stay whole."""
    return Estimate(
        vms=tuple(one for one in estimate.vms if one.uuid in uuids),
        groups=tuple(one for one in estimate.groups if uuids & set(one.members)),
        asking=tuple(one for one in estimate.asking if uuids & set(one.members)),
        waiting=tuple(uuid for uuid in estimate.waiting if uuid in uuids),
        cpu=estimate.cpu,
        elapsed=estimate.elapsed,
        finder=estimate.finder,
    )


def estimate_of(report: Report, found: Estimate, settings: AutoSettings) -> dict[str, Any]:
    """The estimate for machines: bytes and seconds."""
    return {
        "host": report.host,
        "at": report.at,
        "domains": [{"name": name_of(report, one.uuid), **to_plain(one), "saving": one.saving} for one in found.vms],
        "projects": [
            {
                **to_plain(one),
                "profit": one.profit,
                "recommended": pays(one, settings, now_on=False),
                "advice": advice(one, settings),
            }
            for one in found.groups
        ],
        "waiting": [name_of(report, uuid) for uuid in found.waiting],
        "cpu": found.cpu,
        "elapsed": found.elapsed,
        "made_by": "samples" if found.finder is None else "finder",
        "finder": to_plain(found.finder) if found.finder is not None else None,
    }


def made_by(found: Estimate) -> str:
    """What the estimate was made of, for people."""
    one = found.finder
    if one is None:
        return "Estimated from samples: every page is read once, and one content in so many is kept."
    how = "" if one.compiled else ", slowly: the package was built without a compiler"
    false = 100 * one.without_partner / max(1, one.candidates)
    return (
        f"Estimated by the finder, from every page, with {counted(one.workers, 'worker')}{how}: "
        f"{mib(one.candidates)} MiB of candidates, {false:.1f} % of them without a partner; "
        f"{mib(one.read)} MiB read with {one.cpu:.1f} s "
        f"of CPU, an index of {one.index / MIB:.1f} MiB."
    )


def project_name(report: Report, group: GroupEstimate) -> str:
    """A project for people; a VM without one stands for itself."""
    if group.project is not None:
        return group.project
    return "all projects" if len(group.members) != 1 else f"- ({name_of(report, group.members[0])})"


def advice(group: GroupEstimate, settings: AutoSettings) -> str:
    """Whether to merge, by the same rule that dedup=auto follows, if all of the group's VMs did."""
    if pays(group, settings, now_on=False):
        return f"merge: {mib(group.sure)} MiB are sure"
    if group.profit <= 0:
        return "leave: KSM would take more memory than it saves"
    percent = 100 * max(0, group.sure) / max(1, group.looked)
    wanted = f"{settings.enter_percent:g} % and {mib(settings.least)} MiB are wanted"
    return f"leave: {mib(max(0, group.sure))} MiB ({percent:.0f} %) are sure, {wanted}"
