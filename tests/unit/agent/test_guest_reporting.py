"""The reporting lever within conversations: while the store with its marks is away, and when the agent stops."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.agent.guest_reporting import GuestReporting
from memhint.agent.guests import Guests, GuestTiming
from memhint.agent.runners.reporting import ReportingRunner
from memhint.guest.poller import Newest
from memhint.objects.domain import DEFINITION, DomainFacts, DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.ownership import Mark
from memhint.objects.policy import Origin, careful, effective
from memhint.objects.tuning import GUESTS_OWN, Tuning
from memhint.objects.verdict import Answer, Reason
from memhint.store.errors import StoreError
from tests.unit import builders
from tests.unit.agent.views import view_of
from tests.unit.builders import WEB
from tests.unit.levers.fakes import FakeNextBoot
from tests.unit.levers.test_reporting import ORDER, Guest, PatchedGuest

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

    def tell_to_stop_reporting(self) -> None:
        self.talk()
        self.guests.follow([self.domain], {WEB: OFF})
        assert self.guest.files[ORDER].strip() == "11"

    def stop(self) -> list[str]:
        return self.runner.undo(view_of([self.domain], {WEB: careful(effective({}))}), 60.0)

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
    host.tell_to_stop_reporting()
    host.ledger.away = 1  # the first try finds no store
    assert host.stop() == []
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
    host.tell_to_stop_reporting()
    host.runner.host_ends()
    assert host.stop() == []
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


def unread(host: Host) -> None:
    """Its definition cannot be read any more, and nothing of it was kept."""
    gap = Gap(DEFINITION, GapReason.TIMEOUT, "libvirt is late")
    facts = DomainFacts(memory=host.domain.facts.memory, numa_strict=True)
    host.domain = replace(host.domain, facts=facts, gaps=(gap,))


@pytest.mark.parametrize("defined", [False, True])
def test_a_guest_whose_vm_is_not_known_any_more_is_put_back_too(defined: bool) -> None:
    """Without its definition or its wishes it is not looked at; what was changed in it is known all the same."""
    host = Host()
    host.tell_to_stop_reporting()
    host.guests.follow([], {})
    if not defined:
        unread(host)
    assert host.stop() == []
    assert (host.guest.files[ORDER].strip(), host.ledger.all()) == ("9", ())


def test_the_tuning_of_a_guest_whose_vm_is_not_known_any_more_is_put_back_too() -> None:
    host = Host()
    guest = host.guest = PatchedGuest()
    guest.files["/proc/meminfo"] = MEMINFO
    host.guests.follow([host.domain], {WEB: ALLOW}, {WEB: Tuning(order=4)})
    assert guest.order == 4
    host.guests.follow([], {})
    unread(host)
    assert host.stop() == []
    assert (guest.order, host.ledger.all()) == (9, ())


def test_a_guest_whose_vm_is_not_known_any_more_and_that_does_not_answer_is_said_to_be_left() -> None:
    host = Host()
    host.tell_to_stop_reporting()
    host.guests.follow([], {})
    unread(host)
    host.guest.agent.hang_at = {"guest-file-open"}
    host.guests._clock = time.monotonic
    (left,) = host.runner.undo(view_of([host.domain], {WEB: ALLOW}), 1.0)
    assert left.startswith(f"reporting of {WEB}: ")
    assert len(host.ledger.all()) == 1


def test_an_agent_that_stops_before_its_first_cycle_after_a_reload_puts_back_what_the_one_before_changed() -> None:
    host = Host()
    host.tell_to_stop_reporting()
    after = Host()
    after.ledger, after.guest = host.ledger, host.guest
    after.reporting.lever._ledger = after.reporting._ledger = host.ledger
    after.runner.inherit(host.runner)
    assert after.stop() == []
    assert host.guest.files[ORDER].strip() == "9"


@pytest.mark.parametrize("saved", [False, True])
def test_a_guest_whose_vm_is_shut_off_is_left_only_where_it_goes_on_as_it_was(saved: bool) -> None:
    host = Host()
    host.tell_to_stop_reporting()
    host.domain = replace(host.domain, state=DomainState.SHUTOFF)
    host.next_boot.anew = not saved
    host.guest.agent.hang_at = {"guest-file-open", "guest-info"}  # nobody is there to answer
    left = host.stop()
    assert [one.startswith(f"reporting of {WEB}: pending (not_running)") for one in left] == ([True] if saved else [])
    assert len(host.ledger.all()) == (1 if saved else 0)
