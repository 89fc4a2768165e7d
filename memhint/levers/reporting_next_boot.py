"""Free page reporting for a VM's next boot: ``freePageReporting`` in libvirt's definition, marked and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from memhint.objects.domain import DomainObservation
from memhint.objects.ownership import Ledger, Mark
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.virt.errors import VirtError

NEXT_BOOT_KNOB = "libvirt freePageReporting"


class NextBootConfig(Protocol):
    """The domain's definition for its next boot."""

    def reporting(self) -> str | None:
        """``freePageReporting`` as it stands there."""

    def set_reporting(self, value: str | None) -> None:
        """Set it, or remove it with None."""

    def begins_anew(self) -> bool:
        """Whether the domain's next start is a boot, and it does not go on as it was saved."""


def define(
    ledger: Ledger, now: Callable[[], float], domain: DomainObservation, config: NextBootConfig, *, dry_run: bool
) -> Verdict:
    """Have a VM that runs without it start with it the next time."""
    if not domain.facts.persistent:
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "a transient domain has no next boot to define")
    verdict = keep(ledger, now, domain, config, dry_run=dry_run)
    if not verdict.ok or verdict.answer is Answer.PLANNED:
        return verdict
    return Verdict(Answer.PENDING, Reason.NEXT_BOOT, "defined for the VM's next start")


def keep(
    ledger: Ledger, now: Callable[[], float], domain: DomainObservation, config: NextBootConfig, *, dry_run: bool
) -> Verdict:
    """Have the definition of a persistent VM say so, whatever it runs with."""
    try:
        before = config.reporting()
        if before == "on":
            return Verdict(Answer.UNCHANGED)
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, "set freePageReporting='on' for the VM's next start")
        known = ledger.get(domain.uuid, NEXT_BOOT_KNOB)
        if known is not None and known.before != (before or ""):
            ledger.remove(domain.uuid, NEXT_BOOT_KNOB)  # somebody has set another one since: that goes back one day
        ledger.put(Mark(domain.uuid, NEXT_BOOT_KNOB, before or "", "on", "", now()))
        config.set_reporting("on")
    except VirtError as error:
        return Verdict(Answer.FAILED, Reason.HYPERVISOR, error.detail)
    return Verdict(Answer.APPLIED, Reason.NONE, "freePageReporting='on' is set for the VM's next start, too")


def put_back(ledger: Ledger, mark: Mark, config: NextBootConfig) -> Verdict:
    """The definition as it was, unless somebody has changed it since."""
    try:
        mine = config.reporting() == mark.after
        if mine:
            config.set_reporting(mark.before or None)
    except VirtError as error:
        return Verdict(Answer.FAILED, Reason.HYPERVISOR, error.detail)
    ledger.remove(mark.subject, mark.knob)
    if not mine:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "somebody has set it since, and it is left so")
    return Verdict(Answer.APPLIED, Reason.NONE, "the definition for the next start is as it was")
