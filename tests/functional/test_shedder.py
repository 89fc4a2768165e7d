"""A host that asks for relief by migration, against a store and a Nova that notes what it is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from memhint.controller.shedder import Shedder
from memhint.objects.gap import Gap, GapReason
from memhint.objects.ladder import EnteredRung, Rung
from memhint.objects.policy import Origin
from memhint.objects.provider import NovaCompute
from memhint.objects.relief import Relief
from memhint.objects.report import POLICY, DomainReport
from memhint.openstack.errors import NotThere, OpenStackError, Unreachable
from memhint.openstack.nova import Placed
from memhint.store.capacity_views import CapacityViews
from memhint.store.database import Store, open_store
from memhint.store.fleet import HostEventKind, State
from memhint.store.tables import report
from tests.clock import Clock
from tests.told import happened
from tests.unit import builders

PROVIDER, OTHER = "2f1b4c9e-5a55-4a53-9d4e-0c6a3d1b7f10", "2f1b4c9e-5a55-4a53-9d4e-0c6a3d1b7f11"
PROVIDERS = {"host-a": PROVIDER, "host-0": OTHER}
EPOCH = "000000000000001-00000000"


class Nova:
    """Stands for Nova's API."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.busy: set[str] = set()
        self.moving: set[str] = set()
        self.unknown: set[str] = set()
        self.runs_on: str | None = "host-a"
        self.hypervisors = {provider: name for name, provider in PROVIDERS.items()}
        self.error: OpenStackError | None = None
        self.refused: tuple[str, ...] | None = None  # None: each

    def placed(self, server: str) -> Placed:
        if server in self.unknown:
            raise NotThere("404")
        return Placed(self.runs_on, server in self.busy | self.moving, server in self.moving)

    def hypervisor(self, provider: str) -> str | None:
        return self.hypervisors.get(provider)

    def live_migrate(self, server: str) -> None:
        if self.error is not None and (self.refused is None or server in self.refused):
            raise self.error
        self.asked.append(server)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = open_store(url)
    yield store
    store.close()


def pressed(store: Store, named: str = builders.WEB, provider: str | None = None, **changes) -> None:
    plan = builders.plan()
    rung = EnteredRung(Rung.MIGRATION, 0.0, "psi 60 %")
    plan = replace(plan, rungs=(rung,), relief=Relief(migrate=named))
    nova = NovaCompute(provider or PROVIDERS[changes.get("host", "host-a")])
    made = builders.report(plan=plan, nova=nova, slot_overhead=128 << 20, epoch=EPOCH, **changes)
    store.fleet.take([State(made, 10.0 * made.sequence)])


def two_domains() -> tuple[DomainReport, DomainReport]:
    """The second one is the smaller."""
    first = builders.domain_report()
    seen = first.observation
    assert seen.process is not None
    process = replace(seen.process, rss=seen.process.rss // 2)
    return first, replace(first, observation=replace(seen, uuid=builders.DB, process=process))


def shedder(store: Store, nova: Nova, pause: float = 300.0, said: Mapping[str, str] | None = None) -> Shedder:
    return Shedder(store.hosts_view, store.reports, store.fleet, nova, pause, said or {})


def events(store: Store) -> list[str]:
    return [one.detail for one in happened(store) if one.kind == HostEventKind.MIGRATION]


def test_the_named_vm_is_asked_for_once_in_the_pause_by_however_many_controllers(store: Store) -> None:
    pressed(store)
    nova = Nova()
    assert [shedder(store, nova).round(), shedder(store, nova).round()] == [1, 0]
    assert nova.asked == [builders.WEB]
    assert events(store) == [f"{builders.WEB}: asked Nova for a live migration"]


@pytest.mark.parametrize("kind", [HostEventKind.RESTARTED, HostEventKind.CAPACITY])
def test_the_pause_is_kept_whatever_else_happens_to_the_host(store: Store, kind: HostEventKind) -> None:
    pressed(store)
    nova, clock = Nova(), [time.time()]
    store.fleet._clock = lambda _connection: clock[0]
    assert shedder(store, nova).round() == 1
    for number in range(60):
        clock[0] += 0.01  # of one moment and kind one event is kept
        store.fleet.tell("host-a", kind, f"epoch {number}")
    assert shedder(store, nova).round() == 0
    assert shedder(store, nova, pause=0.0).round() == 1


def test_one_hosts_pause_is_not_anothers(store: Store) -> None:
    for name in ("host-0", "host-a"):
        pressed(store, host=name)
    nova = Nova()
    store.fleet.tell("host-0", HostEventKind.MIGRATION, f"{builders.WEB}: asked Nova for a live migration")
    assert shedder(store, nova).round() == 1


@pytest.mark.parametrize("ahead", [-1e8, 1e8])
def test_the_pause_is_one_of_the_databases_clock(store: Store, ahead: float) -> None:
    pressed(store)
    nova, clock = Nova(), [time.time()]
    store.fleet._clock = lambda _connection: clock[0]
    store.fleet.tell("host-a", HostEventKind.MIGRATION, "of a time that has not come, or is long past")
    clock[0] += ahead
    assert [shedder(store, nova).round(), shedder(store, nova).round()] == [1, 0]
    clock[0] += 301.0
    assert [shedder(store, nova).round(), shedder(store, nova).round()] == [1, 0]


def test_a_vm_that_nova_moves_already_is_not_asked_for(store: Store) -> None:
    pressed(store)
    nova = Nova()
    nova.moving = {builders.WEB}
    assert shedder(store, nova).round() == 0
    assert (nova.asked, events(store)) == ([], [])


def test_a_refusal_is_an_event_and_pauses_too(store: Store) -> None:
    pressed(store)
    nova = Nova()
    nova.error = OpenStackError("no valid host")
    assert [shedder(store, nova).round(), shedder(store, nova).round()] == [0, 0]
    assert events(store) == [f"{builders.WEB}: refused: no valid host"]


@pytest.mark.parametrize("error", [OpenStackError("503"), Unreachable("it does not answer")])
def test_a_nova_that_cannot_be_asked_has_refused_nothing(store: Store, error: OpenStackError) -> None:
    pressed(store, host="host-0")
    pressed(store)
    nova, looks = Nova(), 0

    def placed(server: str) -> Placed:
        nonlocal looks
        looks += 1
        raise error

    nova.placed = placed  # type: ignore[method-assign]
    assert shedder(store, nova).round() == 0
    assert looks == (1 if isinstance(error, Unreachable) else 2)
    assert events(store) == []
    del nova.placed  # type: ignore[attr-defined]
    assert shedder(store, nova).round() == 1


@pytest.mark.parametrize("named", ["../flavors", "", "11111111-1111-4111-8111-111111111111"])
def test_what_the_host_does_not_report_is_not_moved(store: Store, named: str) -> None:
    pressed(store, named)
    nova = Nova()
    assert shedder(store, nova).round() == 0
    assert nova.asked == []
    assert "does not report such a VM" in events(store)[0]


@pytest.mark.parametrize("runs_on", ["compute-2", None])
def test_a_vm_that_nova_runs_elsewhere_is_not_moved(store: Store, runs_on: str | None) -> None:
    pressed(store)
    nova = Nova()
    nova.runs_on = runs_on
    assert shedder(store, nova).round() == 0
    assert nova.asked == []
    assert "Nova does not run it" in events(store)[0]


@pytest.mark.parametrize("claimed", [OTHER, OTHER.upper()])
def test_a_host_that_claims_another_hosts_compute_has_nothing_moved(store: Store, claimed: str) -> None:
    pressed(store, provider=claimed)
    nova = Nova()
    nova.hypervisors = {claimed: "host-0", OTHER: "host-0"}
    nova.runs_on = "host-0"
    assert shedder(store, nova).round() == 0
    assert nova.asked == []
    assert "it claims another compute" in events(store)[0]


@pytest.mark.parametrize("said", [{"host-0": PROVIDER}, {"host-a": OTHER}])
def test_the_operators_word_takes_a_compute_from_the_host_that_bears_its_name(
    store: Store, said: dict[str, str]
) -> None:
    pressed(store)
    nova = Nova()
    assert shedder(store, nova, said=said).round() == 0
    assert nova.asked == []


def test_the_operators_word_joins_a_host_and_a_compute_of_another_name(store: Store) -> None:
    pressed(store)
    nova = Nova()
    nova.hypervisors = {PROVIDER: "compute-1"}
    nova.runs_on = "compute-1"
    assert shedder(store, nova, said={"host-a": PROVIDER}).round() == 1
    assert nova.asked == [builders.WEB]


@pytest.mark.parametrize("why", ["busy", "unknown"])
def test_where_nova_cannot_move_the_one_that_is_named_another_one_goes(store: Store, why: str) -> None:
    pressed(store, domains=two_domains())
    nova = Nova()
    setattr(nova, why, {builders.WEB})
    assert shedder(store, nova).round() == 1
    assert nova.asked == [builders.DB]


def test_no_other_goes_that_may_not(store: Store) -> None:
    pinned, wished = two_domains()[1], builders.policy({Origin.OPERATOR: {"class": "guaranteed"}})
    device = replace(pinned.observation, facts=replace(pinned.observation.facts, vfio=True))
    gap = Gap(POLICY, GapReason.MALFORMED)
    for number, kept in enumerate(
        (
            replace(pinned, policy=wished),
            replace(pinned, observation=device),
            replace(pinned, observation=replace(pinned.observation, gaps=(gap,))),
        )
    ):
        pressed(store, sequence=10 + number, domains=(two_domains()[0], kept))
        nova = Nova()
        nova.busy = {builders.WEB}
        assert shedder(store, nova).round() == 0
        assert nova.asked == []


def test_who_is_refused_comes_last_for_an_hour(store: Store) -> None:
    pressed(store, domains=two_domains())
    nova, clock = Nova(), Clock(1e6)
    nova.error, nova.refused = OpenStackError("no valid host"), (builders.WEB,)
    one = Shedder(store.hosts_view, store.reports, store.fleet, nova, 0.0, {}, clock=clock)
    assert [one.round(), one.round()] == [0, 1]
    assert nova.asked == [builders.DB]
    nova.error = None
    clock.now += 3600.0
    assert one.round() == 1
    assert nova.asked == [builders.DB, builders.WEB]


def test_a_cell_that_does_not_answer_keeps_back_the_hosts_of_no_other(store: Store) -> None:
    pressed(store, host="host-0")
    pressed(store)
    nova, known = Nova(), Placed("host-a", False)
    answers: list[Placed | None] = [None, known, None]

    def placed(server: str) -> Placed:
        found = answers.pop(0)
        if found is None:
            raise Unreachable("it does not answer")
        return found

    nova.placed = placed  # type: ignore[method-assign]
    one = shedder(store, nova)
    assert [one.round(), one.round()] == [0, 1]
    assert nova.asked == [builders.WEB]


def test_a_report_that_is_damaged_keeps_no_other_host_from_being_helped(store: Store) -> None:
    pressed(store, host="host-0")
    pressed(store)
    with store.database.write() as connection:
        connection.execute(report.update().where(report.c.host == "host-0").values(document="{"))
    nova = Nova()
    assert shedder(store, nova).round() == 1
    assert nova.asked == [builders.WEB]


def test_what_is_no_uuid_is_asked_of_nobody(store: Store) -> None:
    pressed(store, provider="../servers")
    nova = Nova()
    nova.hypervisors = {"../servers": "host-a"}
    assert shedder(store, nova).round() == 0
    assert nova.asked == []
    assert "it claims another compute" in events(store)[0]


def test_one_hosts_trouble_keeps_no_other_from_being_helped(store: Store) -> None:
    pressed(store, host="host-0")
    pressed(store)
    nova = Nova()
    asked = iter([RuntimeError("a defect")])

    def placed(server: str) -> Placed:
        for error in asked:
            raise error
        return Placed("host-a", False)

    nova.placed = placed  # type: ignore[method-assign]
    assert shedder(store, nova).round() == 1
    assert nova.asked == [builders.WEB]


def test_an_operators_own_vm_is_none_of_novas(store: Store) -> None:
    pressed(store)
    nova = Nova()
    nova.error = NotThere("404")
    assert shedder(store, nova).round() == 0
    assert events(store) == []


def test_the_writer_sees_what_the_reports_say(store: Store) -> None:
    pressed(store)
    (view,) = CapacityViews(store.database, store.hosts_view).read()
    assert (view.provider, view.forced_ratio, view.stale) == (PROVIDER, None, False)
    assert view.slot_overhead == 128 << 20
    assert set(view.memory) == {one.observation.uuid for one in builders.report().domains}
    store.fleet.take(
        [State(builders.report(sequence=8, epoch=EPOCH, domains=(), nova=NovaCompute(PROVIDER, 1.5)), 10.0)]
    )
    (view,) = CapacityViews(store.database, store.hosts_view).read()
    assert view.memory == {}
    assert view.forced_ratio == 1.5
