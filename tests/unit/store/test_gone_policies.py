"""The wishes of a VM outlive it for long, but not for ever: also those of one that is gone for a while only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from memhint.objects.policy import Origin
from memhint.store import open_store
from memhint.store.central_policies import CentralPolicies
from memhint.store.host_store import HostStore, open_host_store
from memhint.store.parts import AT_ONCE
from memhint.store.rows.policies import FORGET_AFTER
from tests.unit import builders
from tests.unit.builders import DB, NOW, WEB

DAY, YEARS = 86400.0, 7 * 365 * 86400.0
OPENERS: dict[str, Callable[[str], HostStore]] = {
    "whole": lambda url: open_store(url, host="host-a"),
    "light": lambda url: open_host_store(url, host="host-a"),
}


@dataclass
class Host:
    """A host whose agent reports every eight hours, and its store."""

    store: HostStore
    now: float = NOW
    sequence: int = 0

    def pass_days(self, days: float, *uuids: str) -> None:
        """Let so many pass in which these VMs are there."""
        until = self.now + days * DAY
        while self.now < until:
            self.sequence += 1
            self.now += DAY / 3
            vms = [
                builders.domain_report(observation=builders.domain_observation(uuid=uuid, name=f"vm-{uuid}"))
                for uuid in uuids
            ]
            self.store.reports.save(builders.report(sequence=self.sequence, at=self.now, domains=tuple(vms)))

    def wished(self) -> set[str]:
        """The VMs of which something is."""
        return set(self.store.policies.read().inputs)


@pytest.fixture(params=OPENERS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    made = Host(OPENERS[request.param](f"sqlite:///{tmp_path}/memhint.db"))
    made.store.policies._clock = lambda: made.now
    for uuid in (WEB, DB):
        made.store.policies.set_operator(uuid, {"reporting": "off"})
        made.store.policies.replace(uuid, Origin.METADATA, {"dedup": "off"})
    yield made
    made.store.close()


def test_they_go_when_their_vm_has_been_gone_for_long_and_others_stay(host: Host) -> None:
    host.pass_days(3, WEB, DB)
    host.now += FORGET_AFTER - 5 * DAY  # the agent stood still
    host.pass_days(3, WEB)
    assert host.wished() == {WEB, DB}
    host.pass_days(3, WEB)
    assert host.wished() == {WEB}
    assert host.store.policies.read().inputs[WEB] == {
        Origin.OPERATOR: {"reporting": "off"},
        Origin.METADATA: {"dedup": "off"},
    }


def test_one_that_is_undefined_for_a_while_or_goes_away_and_comes_back_keeps_them(host: Host) -> None:
    for _ in range(2):
        host.pass_days(2, WEB, DB)
        host.now += FORGET_AFTER - 10 * DAY
        host.pass_days(4, WEB)
    assert host.wished() == {WEB, DB}


def test_one_that_was_here_lately_keeps_old_ones_of_which_no_more_is_known(host: Host) -> None:
    """As an earlier version leaves them: it noted when they were set, and not when their VM was seen."""
    host.now += 2 * FORGET_AFTER
    host.pass_days(2 / 3, WEB, DB)  # the clock is not proven yet, and nothing is noted
    host.pass_days(20, WEB)
    assert host.wished() == {WEB, DB}
    host.pass_days(20, WEB)
    assert host.wished() == {WEB}


def test_a_clock_that_jumps_takes_none(host: Host) -> None:
    host.pass_days(3, WEB)
    host.now += YEARS
    host.pass_days(1 / 3, WEB)
    assert host.wished() == {WEB, DB}


def test_what_controllers_wish_is_forgotten_by_them_alone(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    CentralPolicies(store.database, lambda _: NOW, lambda: NOW).set(DB, {"reporting": "off"})
    host = Host(store, NOW + 2 * FORGET_AFTER)
    host.pass_days(3, WEB)
    assert host.wished() == {DB}
    store.close()


def test_no_more_is_read_than_is_asked_for(host: Host) -> None:
    many = [f"vm-{number}" for number in range(2 * AT_ONCE)]
    assert host.store.policies.of([]).inputs == {}
    assert host.store.policies.of([*many, DB]).inputs == {DB: host.store.policies.read(DB).inputs[DB]}
