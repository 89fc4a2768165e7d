"""Lists of hosts and VMs on every database: what is in them, in which order, in parts, and what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from sqlalchemy import select

from lab.fleet.fill import fill
from lab.fleet.fleet import BEGIN, Fleet, Shape
from memhint.objects.domain import DomainState
from memhint.objects.plan import Bound
from memhint.objects.report import Report
from memhint.objects.summary import (
    DOMAIN_SORT_KEYS,
    HOST_SORT_KEYS,
    DomainSummary,
    Freshness,
    HostSummary,
    domain_summaries,
    host_summary,
)
from memhint.objects.units import GIB, KIB, MIB
from memhint.store import Store, fleet
from memhint.store.domains import DomainFilter
from memhint.store.errors import ChangesExpired, MarkerError
from memhint.store.fleet import State
from memhint.store.hosts_view import HostsView
from memhint.store.pages import Page
from memhint.store.rows.revisions import TOLD
from memhint.store.summaries import Summaries
from memhint.store.tables import host_summary as lines
from memhint.store.tables import revision, tombstone
from tests.clock import Clock
from tests.unit import builders

AT = BEGIN + 100_000.0
PERIOD = 10.0
T = TypeVar("T")


@pytest.fixture
def clock() -> Clock:
    return Clock(AT)


@pytest.fixture
def kept(store: Store, clock: Clock) -> Store:
    summaries = Summaries(store.domain_history)
    return replace(
        store,
        fleet=fleet.Fleet(store.database, store.history, store.events, summaries, store.reclaims, 3600.0, clock),
        hosts_view=HostsView(store.database, clock),
    )


@pytest.fixture
def many(kept: Store) -> Fleet:
    made = Fleet(Shape(30, 6))
    fill(kept, made, AT)
    return made


def take(store: Store, clock: Clock, *reports: Report) -> None:
    store.fleet.take([State(one, one.sequence * PERIOD) for one in reports])


def report(sequence: int, *sizes: int, host: str = "host-a", **changes: Any) -> Report:
    """A host with a VM for each size: bytes that its guest does not report."""
    made = tuple(vm(number, size) for number, size in enumerate(sizes))
    return builders.report(
        host=host,
        epoch="001700000000000-0000000a",
        sequence=sequence,
        at=AT + sequence * PERIOD,
        domains=made,
        **changes,
    )


def vm(number: int, unreported: int | None, **changes: Any) -> Any:
    guest = builders.guest_memory(unreported=unreported)
    seen = builders.domain_observation(uuid=f"vm-{number}", name=f"vm-{number}", guest=guest, **changes)
    return builders.domain_report(observation=seen)


def whole(page: Callable[[str | None], Page[T]]) -> Iterator[T]:
    marker = None
    while True:
        part = page(marker)
        yield from part.items
        marker = part.next
        if marker is None:
            return


def test_every_vm_is_listed_as_its_report_says(kept: Store, many: Fleet) -> None:
    wanted = {line.uuid: line for one in many.reports(AT) for line in domain_summaries(one)}
    found = list(whole(lambda marker: kept.domains.page(limit=17, marker=marker)))
    assert len(found) == 180
    assert {one.uuid: one for one in found} == wanted
    assert kept.domains.one(many.most_unreported) == wanted[many.most_unreported]
    assert kept.domains.one("nobody") is None


def test_every_host_is_listed_as_its_report_says(kept: Store, many: Fleet) -> None:
    found = {one.name: one for one in whole(lambda marker: kept.hosts_view.page(limit=7, marker=marker))}
    assert len(found) == 30
    for number, made in enumerate(many.reports(AT)):
        one = found[made.host]
        assert kept.hosts_view.one(made.host) == one
        if not many.stale(number):
            assert one == host_summary(made, one.heard)
    assert kept.hosts_view.one("nobody") is None


def _wanted(every: list[T], sort: str, descending: bool, key: Callable[[T], Any]) -> list[T]:
    known = [one for one in every if getattr(one, sort) is not None]
    known.sort(key=key)
    known.sort(key=lambda one: getattr(one, sort), reverse=descending)
    return known + sorted((one for one in every if getattr(one, sort) is None), key=key)


@pytest.mark.parametrize("descending", [False, True])
def test_lists_in_parts_are_whole_in_every_order(kept: Store, many: Fleet, descending: bool) -> None:
    vms = list(kept.domains.page(limit=1000).items)
    for sort in DOMAIN_SORT_KEYS:
        parts = list(
            whole(lambda marker: kept.domains.page(sort=sort, descending=descending, limit=23, marker=marker))  # noqa: B023
        )
        assert parts == _wanted(vms, sort, descending, lambda one: (one.uuid, one.host)), sort
    hosts = list(kept.hosts_view.page(limit=1000).items)
    for sort in HOST_SORT_KEYS:
        lines = list(
            whole(lambda marker: kept.hosts_view.page(sort, descending=descending, limit=4, marker=marker))  # noqa: B023
        )
        assert lines == _wanted(hosts, sort, descending, lambda one: one.name), sort


def test_the_vm_with_the_most_unreported_memory_comes_first(kept: Store, many: Fleet) -> None:
    first, second = kept.domains.page(sort="unreported", descending=True, limit=2).items
    assert first.uuid == many.most_unreported
    assert first.unreported is not None
    assert second.unreported is not None
    assert first.unreported > 2 * second.unreported


@pytest.mark.parametrize(
    "which",
    [
        DomainFilter(host="compute-0003"),
        DomainFilter(project="green"),
        DomainFilter(state=DomainState.SHUTOFF),
        DomainFilter(name="WEB-1"),
        DomainFilter(host="compute-0004", name="web"),
        DomainFilter(name="%"),
    ],
    ids=str,
)
def test_lists_are_filtered(kept: Store, many: Fleet, which: DomainFilter) -> None:
    def passes(one: DomainSummary) -> bool:
        return (
            which.host in (None, one.host)
            and which.project in (None, one.project)
            and which.state in (None, one.state)
            and (which.name or "").lower() in one.name
        )

    every = kept.domains.page(limit=1000).items
    found = list(whole(lambda marker: kept.domains.page(which, limit=5, marker=marker)))
    assert found == [one for one in every if passes(one)]
    assert bool(found) is (which.name != "%")


@pytest.mark.parametrize("typed", ["\u00c4rzte-1", "\u00c4", "rzte", "RZTE", "\u0130", "100%_"])
def test_a_name_is_found_as_it_is_written(kept: Store, clock: Clock, typed: str) -> None:
    seen = builders.domain_observation(uuid="vm-x", name="\u00c4rzte-1 \u0130 100%_")
    other = builders.domain_observation(uuid="vm-y", name="arzte-2 100 %")
    domains = tuple(builders.domain_report(observation=one) for one in (seen, other))
    take(kept, clock, replace(report(1), domains=domains))
    found = {one.uuid for one in kept.domains.page(DomainFilter(name=typed)).items}
    assert found >= {"vm-x"}
    assert (found == {"vm-x"}) is (typed.lower() != "rzte")


@pytest.mark.parametrize(
    "marker", ["", "x", "!!", "bm90IGpzb24", "WzEsMiwzXQ", "WyJuYW1lIixmYWxzZSxbXSwiYSIsImIiXQ", "W" * 5000]
)
def test_a_marker_of_no_list_is_refused(kept: Store, marker: str) -> None:
    with pytest.raises(MarkerError, match="begin with the first part"):
        kept.domains.page(marker=marker)


def test_a_marker_holds_for_its_own_order_only(kept: Store, many: Fleet) -> None:
    marker = kept.domains.page(sort="demand", limit=3).next
    with pytest.raises(MarkerError):
        kept.domains.page(sort="resident", marker=marker)
    with pytest.raises(MarkerError):
        kept.domains.page(sort="demand", descending=True, marker=marker)
    with pytest.raises(MarkerError, match="no list is sorted by 'password'"):
        kept.domains.page(sort="password")


def test_what_moves_by_next_to_nothing_is_not_written_again(kept: Store, clock: Clock) -> None:
    take(kept, clock, report(1, 64 * MIB, 640 * MIB))
    token = kept.domains.token()
    take(kept, clock, report(2, 64 * MIB + 3 * KIB, 800 * MIB))
    changes = kept.domains.changed(token)
    assert [(one.name, one.unreported) for one in changes.items] == [("vm-1", 800 * MIB)]
    assert [one.at for one in kept.domains.page().items] == [AT + 20.0] * 2  # seen again, all the same
    assert [one.name for one in kept.hosts_view.changed(token).items] == ["host-a"]
    assert kept.domains.changed(changes.token).items == ()


def test_what_is_no_more_is_told(kept: Store, clock: Clock) -> None:
    take(kept, clock, report(1, MIB, MIB))
    token = kept.domains.token()
    take(kept, clock, report(2, MIB))
    assert kept.domains.one("vm-1") is None
    assert kept.domains.changed(token).deleted == ("vm-1",)
    take(kept, clock, report(3, MIB, MIB))
    assert kept.domains.changed(token).deleted == ()
    assert [one.uuid for one in kept.domains.changed(token).items] == ["vm-1"]


def test_a_vm_that_moves_is_where_it_runs(kept: Store, clock: Clock) -> None:
    incoming = replace(report(1, host="host-b"), domains=(vm(0, MIB, state=DomainState.INCOMING),))
    take(kept, clock, report(1, MIB), incoming)
    assert [(one.uuid, one.host) for one in kept.domains.page().items] == [("vm-0", "host-a"), ("vm-0", "host-b")]
    one = kept.domains.one("vm-0")
    assert one is not None
    assert one.host == "host-a"
    take(kept, clock, report(2, MIB, host="host-b"))
    token = kept.domains.token()
    take(kept, clock, report(2))
    changes = kept.domains.changed(token)
    assert changes.deleted == ()
    assert [(one.uuid, one.host) for one in changes.items] == [("vm-0", "host-b")]


def test_of_a_vm_that_two_hosts_have_both_lines_are_told_when_one_changes(kept: Store, clock: Clock) -> None:
    take(kept, clock, report(1, 24 * MIB, MIB), report(1, 0, host="host-b"))
    token = kept.domains.token()
    take(kept, clock, report(2, 64 * MIB, host="host-b"))
    changes = kept.domains.changed(token)
    assert [(one.uuid, one.host, one.unreported) for one in changes.items] == [
        ("vm-0", "host-a", 24 * MIB),
        ("vm-0", "host-b", 64 * MIB),
    ]


def test_an_older_report_changes_nothing(kept: Store, clock: Clock) -> None:
    take(kept, clock, report(5, 64 * MIB))
    token = kept.domains.token()
    take(kept, clock, report(4, 900 * MIB, MIB), report(5, 900 * MIB))
    assert kept.domains.changed(token).items == ()
    assert kept.hosts_view.changed(token).items == ()


def test_changes_are_told_for_an_hour_and_then_no_more(kept: Store, clock: Clock) -> None:
    take(kept, clock, report(1, MIB, MIB))
    token = kept.domains.token()
    take(kept, clock, report(2, MIB))
    clock.now += TOLD - 1
    kept.fleet.tidy()
    assert kept.domains.changed(token).deleted == ("vm-1",)
    clock.now += 2
    kept.fleet.tidy()
    for expired in (token, "0", "", "x", "9" * 18, "9" * 30, "-1", "\u0661"):
        with pytest.raises(ChangesExpired):
            kept.domains.changed(expired)
        with pytest.raises(ChangesExpired):
            kept.hosts_view.changed(expired)
    assert kept.domains.changed(kept.domains.token()).items == ()


def test_a_token_of_changes_that_the_database_lost_is_expired_for_ever(kept: Store, clock: Clock) -> None:
    take(kept, clock, report(1, MIB))
    early = kept.hosts_view.token()
    with kept.database.read() as connection:
        (before,) = connection.execute(select(revision)).all()
    take(kept, clock, report(2, MIB, MIB))
    lost = kept.hosts_view.token()
    with kept.database.write() as connection:  # as it is in a copy of before
        connection.execute(revision.update().values(before._mapping))
        connection.execute(tombstone.delete().where(tombstone.c.revision > before.value))
    for sequence in range(3, 6):
        with pytest.raises(ChangesExpired):
            kept.hosts_view.changed(lost)
        with pytest.raises(ChangesExpired):
            kept.domains.changed(lost)
        clock.now += PERIOD
        take(kept, clock, report(sequence, MIB))
        assert int(kept.hosts_view.token()) > int(lost)  # whoever compares numbers sees newer ones
    assert [one.name for one in kept.hosts_view.changed(early).items] == ["host-a"]


def test_a_controller_of_an_earlier_version_beside_expires_no_token(kept: Store, clock: Clock) -> None:
    take(kept, clock, report(1, MIB))
    token = kept.hosts_view.token()
    with kept.database.write() as connection:  # it counts on, and does not keep what it gave
        number = select(revision.c.value).scalar_subquery() + 1
        connection.execute(revision.update().values(value=number))
        connection.execute(lines.update().values(revision=number - 1))
    changes = kept.hosts_view.changed(token)
    assert [one.name for one in changes.items] == ["host-a"]
    kept.hosts_view.changed(changes.token)
    take(kept, clock, report(2, MIB))
    assert [one.name for one in kept.hosts_view.changed(changes.token).items] == ["host-a"]
    # Where all are of an earlier version, tokens are as they were.
    with kept.database.write() as connection:
        connection.execute(tombstone.delete())
        connection.execute(revision.update().values(value=number, oldest=1))
    assert kept.hosts_view.changed(token).token == str(int(kept.hosts_view.token()))


def test_an_old_promise_is_not_shown(kept: Store, clock: Clock) -> None:
    plan = builders.plan(capacity=builders.capacity(headroom=16 * GIB, assigned=50 * GIB))
    take(kept, clock, report(1, plan=plan), report(1, host="host-b", plan=plan))
    clock.now += 31
    take(kept, clock, report(4, host="host-b", plan=plan))
    stale, fresh = kept.hosts_view.page().items
    assert (stale.state, stale.headroom, stale.bound) == (Freshness.STALE, 10 * GIB, Bound.STALE)
    assert stale.slots == 10 * GIB // stale.slot
    assert (fresh.state, fresh.headroom) == (Freshness.FRESH, 16 * GIB)
    assert [one.name for one in kept.hosts_view.page("headroom").items] == ["host-a", "host-b"]
    token = kept.hosts_view.token()
    kept.fleet.sweep()
    (silent,) = kept.hosts_view.changed(token).items
    assert (silent.name, silent.state, silent.headroom) == ("host-a", Freshness.SILENT, 10 * GIB)


def test_a_stale_host_that_promised_less_than_nominal_promises_no_more_now() -> None:
    plan = builders.plan(capacity=builders.capacity(headroom=GIB))
    one: HostSummary = host_summary(report(1, plan=plan), AT).as_of(False, AT + 31, 3)
    assert one.headroom == GIB


def test_the_embedded_store_lists_its_own_host(store: Store) -> None:
    made = report(1, MIB, 500 * MIB)
    store.reports.save(made)
    (line,) = HostsView(store.database, lambda _: made.at).page().items
    assert line == host_summary(made, made.at)
    assert list(store.domains.page().items) == domain_summaries(made)


def test_a_vm_has_a_history_of_its_own(kept: Store, clock: Clock) -> None:
    for sequence in range(1, 40):
        clock.now += PERIOD
        take(kept, clock, report(sequence, sequence * 10 * MIB))
    points = kept.domain_history.of("vm-0")
    assert len(points) in (7, 8)  # one a minute
    assert [one.at for one in points] == sorted({one.at for one in points})
    assert points[-1].unreported == round((points[-1].at - AT) / PERIOD) * 10 * MIB
    kept.domain_history.tidy(AT + 86_400)
    hours = kept.domain_history.of("vm-0")
    assert {one.span for one in hours} == {3600}
    assert max(one.unreported or 0 for one in hours) == points[-1].unreported
    kept.domain_history.tidy(AT + 60 * 86_400)
    assert kept.domain_history.of("vm-0") == ()


def test_of_a_vm_that_two_hosts_have_no_history_is_written(kept: Store, clock: Clock) -> None:
    """Else a host that lies writes the course of any VM of the fleet, and the growth table learns from it."""
    clock.now += PERIOD
    take(kept, clock, report(1, MIB))
    honest = kept.domain_history.of("vm-0")
    assert len(honest) == 1
    for sequence in range(1, 30):
        clock.now += PERIOD
        take(kept, clock, report(sequence, 900 * MIB, 5 * MIB, host="host-b"))
    assert kept.domain_history.of("vm-0") == honest
    assert kept.domain_history.of("vm-1"), "its own VMs have theirs"
    for sequence in range(30, 60):
        clock.now += PERIOD
        take(kept, clock, report(sequence, MIB), report(sequence, host="host-b"))
    points = kept.domain_history.of("vm-0")
    assert len(points) > 2, "once it says so no more"
    assert {one.unreported for one in points} == {MIB}


def test_a_host_that_is_silent_has_no_vm_that_another_tells_of(kept: Store, clock: Clock) -> None:
    clock.now += PERIOD
    take(kept, clock, report(1, MIB))
    clock.now += 60.0
    assert kept.fleet.sweep() == ("host-a",)
    take(kept, clock, report(7, 7 * MIB, host="host-b"))
    assert [one.unreported for one in kept.domain_history.of("vm-0")] == [MIB, 7 * MIB]


@pytest.mark.parametrize("days", [-3, 3])
def test_what_is_told_of_another_day_is_no_point(kept: Store, clock: Clock, days: int) -> None:
    """Of a host whose clock is wrong, or that wants its VMs to look old."""
    made = report(1, MIB)
    clock.now += PERIOD
    take(kept, clock, replace(made, at=made.at + days * 86_400))
    assert kept.domain_history.of("vm-0") == ()


def test_a_report_that_names_a_vm_twice_is_no_reason_to_fail(kept: Store, clock: Clock) -> None:
    made = replace(report(1), domains=(vm(0, MIB), vm(0, 2 * MIB)))
    take(kept, clock, made)
    assert [one.unreported for one in kept.domains.page().items] == [2 * MIB]
