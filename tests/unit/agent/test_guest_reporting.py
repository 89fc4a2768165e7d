"""The reporting lever within conversations: while the store with its marks is away, and when the agent stops."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.agent.guest_reporting import GuestReporting
from memhint.agent.guests import Guests, GuestTiming
from memhint.agent.runners.reporting import ReportingRunner
from memhint.guest.poller import Newest
from memhint.objects.ownership import Mark
from memhint.objects.policy import Origin, effective
from memhint.objects.tuning import GUESTS_OWN
from memhint.objects.verdict import Answer, Reason
from memhint.store.errors import StoreError
from tests.unit import builders
from tests.unit.agent.views import view_of
from tests.unit.builders import WEB
from tests.unit.levers.fakes import FakeNextBoot
from tests.unit.levers.test_reporting import ORDER, Guest

MEMINFO = "MemTotal: 4000000 kB\nMemFree: 3000000 kB\nMemAvailable: 3500000 kB\nCached: 9 kB\n"
ALLOW = effective({Origin.OPERATOR: {"guest_actions": "allow"}})
ON = effective({Origin.OPERATOR: {"reporting": "on"}})
OFF = effective({Origin.OPERATOR: {"guest_actions": "allow", "reporting": "off"}})


class Ledger(MemoryLedger):
    """One whose store may be away."""

    away = 0
    """So many questions are not answered."""

    def get(self, subject: str, knob: str) -> Mark | None:
        if self.away:
            self.away -= 1
            raise StoreError("the database is away")
        return super().get(subject, knob)


class Host:
    """Conversations with one guest, on the caller's thread."""

    def __init__(self) -> None:
        self.guest = Guest("6.1.0")
        self.guest.files["/proc/meminfo"] = MEMINFO
        self.ledger = Ledger()
        self.now = 0.0
        self.domain = builders.domain_observation(guest_kernel=None)
        self.guests = Guests(
            lambda uuid: nullcontext(self.guest.agent), GuestTiming(), wall=lambda: self.now, clock=lambda: self.now
        )
        self.guests._poller._start = lambda work: work()
        self.next_boot = FakeNextBoot("on")
        self.reporting = GuestReporting(self.ledger, lambda uuid: self.next_boot, 9, wall=lambda: self.now)
        self.runner = ReportingRunner(self.guests, self.reporting)

    def talk(self) -> None:
        self.now += 10.0
        self.guests.follow([self.domain], {WEB: ALLOW})

    def newest(self) -> Newest:
        return self.guests._poller.newest(WEB)


def test_what_a_guest_says_holds_and_it_is_asked_as_always_while_the_store_is_away() -> None:
    host = Host()
    host.talk()
    host.ledger.away = 99
    host.talk()
    assert host.newest().reading.at == host.now
    assert (host.newest().gap, host.newest().failures, host.newest().retry_in_s) == (None, 0, 0.0)
    verdict = host.reporting.verdict(WEB, ALLOW, GUESTS_OWN)
    assert (verdict.answer, verdict.reason) == (Answer.FAILED, Reason.HYPERVISOR)
    assert "the database is away" in verdict.detail


def test_what_was_changed_in_a_guest_is_put_back_once_the_store_answers() -> None:
    host = Host()
    host.talk()
    host.guests.follow([host.domain], {WEB: OFF})
    assert host.guest.files[ORDER].strip() == "11"
    host.ledger.away = 1  # the first try finds no store
    assert host.guests.undo(60.0) == {}
    assert host.guest.files[ORDER].strip() == "9"


@pytest.mark.parametrize("host_ends", [False, True])
def test_what_vms_have_for_their_next_start_is_put_back_unless_the_whole_host_goes_down(host_ends: bool) -> None:
    """libvirt starts them before there is an agent again."""
    host = Host()
    host.next_boot.value = None
    host.guests.follow([host.domain], {WEB: ON})
    assert (host.next_boot.value, len(host.ledger.all())) == ("on", 1)
    if host_ends:
        host.runner.host_ends()
    assert host.runner.undo(view_of([host.domain], {WEB: ON}), 60.0) == []
    assert (host.next_boot.value, len(host.ledger.all())) == (("on", 1) if host_ends else (None, 0))


def test_what_was_changed_in_a_guest_is_put_back_also_where_the_whole_host_goes_down() -> None:
    """It may be saved, and go on with what it had."""
    host = Host()
    host.talk()
    host.guests.follow([host.domain], {WEB: OFF})
    host.runner.host_ends()
    assert host.runner.undo(view_of([host.domain], {WEB: OFF}), 60.0) == []
    assert (host.guest.files[ORDER].strip(), host.ledger.all()) == ("9", ())


def test_a_definition_that_may_have_changed_is_looked_at_again() -> None:
    host = Host()
    host.guests.follow([host.domain], {WEB: ON})
    host.next_boot.value = None
    host.now += 10.0
    host.guests.follow([host.domain], {WEB: ON})
    assert host.next_boot.value is None
    host.runner.redefined(WEB)
    host.now += 10.0
    host.guests.follow([host.domain], {WEB: ON})
    assert host.next_boot.value == "on"
