"""What libvirt says of a domain, as the state that matters for its memory."""

from __future__ import annotations

import libvirt
import pytest

from memhint.objects.domain import DomainState
from memhint.virt.stats import read_stats


class Domain:
    def UUIDString(self) -> str:
        return "uuid"

    def name(self) -> str:
        return "vm"


class Said:
    """A caller whose libvirt answers with this."""

    def __init__(self, **values: object) -> None:
        self._values = values

    def call(self, what: str, function):
        return function(self)

    def getAllDomainStats(self, stats: int, flags: int):
        return [(Domain(), self._values)]


@pytest.mark.parametrize(
    ("state", "reason", "found"),
    [
        (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_BOOTED, DomainState.RUNNING),
        (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_POSTCOPY, DomainState.RUNNING),
        (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER, DomainState.PAUSED),
        (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP, DomainState.PAUSED),
        (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION, DomainState.INCOMING),
        (libvirt.VIR_DOMAIN_PMSUSPENDED, 0, DomainState.PAUSED),
        (libvirt.VIR_DOMAIN_SHUTDOWN, 0, DomainState.OTHER),
        (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, DomainState.SHUTOFF),
    ],
)
def test_a_state_is_what_it_means_for_memory(state: int, reason: int, found: DomainState) -> None:
    (one,) = read_stats(Said(**{"state.state": state, "state.reason": reason}))
    assert one.state is found


def test_a_vm_whose_guest_crashed_holds_its_memory_all_the_same() -> None:
    """With on_crash=preserve, and while a dump is made: its QEMU is there, and what it has may merge."""
    (one,) = read_stats(Said(**{"state.state": libvirt.VIR_DOMAIN_CRASHED, "state.reason": 1}))
    assert one.state is DomainState.PAUSED
