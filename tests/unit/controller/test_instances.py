"""Following Nova's servers: what is asked, and what a failure leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memhint.conf.load import load
from memhint.controller.instances import OVERLAP, WHOLE, Follower
from memhint.controller.service import follower_of
from memhint.objects.instance import Instance
from memhint.openstack.errors import NotThere, OpenStackError
from memhint.openstack.nova import Placed
from memhint.store import Store
from memhint.store.instances import Instances
from tests.clock import Clock

WEB, DB = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
BEGIN = 1_700_000_000.0  # 2023-11-14T22:13:20Z


class Nova:
    """Stands for Nova's list."""

    def __init__(self, *parts: tuple[Instance, ...]) -> None:
        self.parts = parts
        self.asked: list[str | None] = []
        self.error: OpenStackError | None = None
        self.left_out: set[str] = set()  # there, and in no list

    def placed(self, server: str) -> Placed:
        if server not in self.left_out:
            raise NotThere("404")
        return Placed(None, True)

    def instances(self, since: str | None) -> Iterator[tuple[Instance, ...]]:
        self.asked.append(since)
        yield from self.parts
        if self.error is not None:
            raise self.error


def test_all_are_asked_for_once_and_then_what_has_changed(store: Store) -> None:
    clock, nova = Clock(BEGIN), Nova((Instance(WEB, "blue", "a"),), (Instance(DB, "red", "b"),))
    follower = Follower(Instances(store.database, clock), nova, pause=30.0)
    assert follower.round()
    assert not follower.round()
    clock.now += 31
    nova.parts = ((Instance(WEB, "blue", "c"),),)
    assert follower.round()
    assert nova.asked == [None, "2023-11-14T22:08:20Z"]
    assert OVERLAP == 300.0
    assert store.instances.of(WEB) == Instance(WEB, "blue", "c")
    assert store.instances.of(DB) == Instance(DB, "red", "b")
    clock.now += WHOLE
    assert follower.round()
    assert nova.asked[-1] is None
    assert store.instances.of(DB) is None


def test_servers_that_a_failed_cell_leaves_out_of_the_list_stay(store: Store) -> None:
    clock, nova = Clock(BEGIN), Nova((Instance(WEB, "blue", "a"), Instance(DB, "red", "b")))
    follower = Follower(Instances(store.database, clock), nova, pause=30.0)
    follower.round()
    nova.parts, nova.left_out = (), {WEB}
    clock.now += WHOLE
    assert follower.round()
    assert store.instances.of(WEB) == Instance(WEB, "blue", "a")
    assert store.instances.of(DB) is None
    nova.left_out = set()
    clock.now += WHOLE
    assert follower.round()
    assert store.instances.of(WEB) is None


def test_a_list_that_breaks_off_drops_nothing_and_is_begun_again(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    clock, nova = Clock(BEGIN), Nova((Instance(WEB, "blue", "a"), Instance(DB, "red", "b")))
    follower = Follower(Instances(store.database, clock), nova, pause=30.0)
    follower.round()
    clock.now += WHOLE
    nova.parts, nova.error = ((Instance(DB, "red", "b"),),), OpenStackError("the service is away")
    for _ in range(3):
        assert not follower.round()
        clock.now += 200
    assert store.instances.of(WEB) == Instance(WEB, "blue", "a")
    assert caplog.text.count("the service is away") == 1
    nova.error = None
    assert follower.round()
    assert nova.asked == [None] * 5
    assert store.instances.of(WEB) is None


@pytest.mark.parametrize("ahead", [2 * WHOLE, 365 * 86_400.0])
def test_all_are_asked_for_once_the_databases_clock_was_set_back(store: Store, ahead: float) -> None:
    clock, nova = Clock(BEGIN), Nova((Instance(WEB, "blue", "a"),))
    follower = Follower(Instances(store.database, clock), nova, pause=30.0)
    clock.now = BEGIN + ahead
    assert follower.round()
    clock.now = BEGIN + 31.0
    nova.parts = ((Instance(DB, "red", "b"),),)  # made meanwhile
    assert follower.round()
    assert nova.asked == [None, None]
    assert store.instances.of(DB) == Instance(DB, "red", "b")
    clock.now += 31.0
    assert follower.round()
    assert nova.asked[-1] is not None


def test_a_login_that_was_taken_away_leaves_novas_last_list_and_says_so(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    conf = load([])
    assert follower_of(conf, store) is None
    assert not caplog.records
    assert Follower(store.instances, Nova((Instance(WEB, "blue", "a"),)), pause=30.0).round()
    assert follower_of(conf, store) is None
    assert "set [openstack] instances = false" in caplog.text
