"""A VM by what a person types, and what a report has of it."""

from __future__ import annotations

import difflib

from memhint.cli.errors import CliError, Exit
from memhint.objects.plan import Demand
from memhint.objects.report import DomainReport, Report


def unlisted(report: Report) -> bool:
    """Whether libvirt has not said which VMs there are. Then a report without VMs does not say that there are none."""
    return report.plan.capacity.blind and not report.domains


def need_vms(report: Report) -> None:
    """Go on only where it is known which VMs there are.

    :raises CliError: where it is not
    """
    if unlisted(report):
        why = "; ".join(str(gap) for gap in (*report.gaps, *report.observation.gaps))
        raise CliError(Exit.FAILED, f"libvirt has not said which VMs there are on {report.host}: {why or 'ask again'}")


def find_domain(report: Report, wanted: str) -> DomainReport:
    """The one VM of the report with this name or UUID.

    :raises CliError: when there is none, or more than one
    """
    need_vms(report)
    by_uuid = [one for one in report.domains if one.observation.uuid == wanted.lower()]
    found = by_uuid or [one for one in report.domains if one.observation.name == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        uuids = ", ".join(one.observation.uuid for one in found)
        raise CliError(Exit.USAGE, f"{len(found)} domains are called {wanted!r}: use a UUID, one of {uuids}")
    names = [one.observation.name for one in report.domains]
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "see: memhint domains"
    raise CliError(Exit.NO_DOMAIN, f"no domain {wanted!r} on {report.host}: {hint}")


def name_of(report: Report, subject: str) -> str:
    """The name of a subject for people: a VM's name, or the subject itself."""
    for one in report.domains:
        if one.observation.uuid == subject:
            return one.observation.name
    return subject


def demand_of(report: Report, one: DomainReport) -> Demand | None:
    """What a VM of the report may come to need; None where the plan does not say."""
    return next((demand for demand in report.plan.demands if demand.uuid == one.observation.uuid), None)
