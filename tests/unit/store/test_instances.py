"""Whose VMs are: the hosts' word, and Nova's where it is followed."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from memhint.objects.domain import DomainFacts
from memhint.objects.event import Event
from memhint.objects.instance import Instance, same_host
from memhint.objects.reclaim import Reclaim
from memhint.store import Store, open_store
from memhint.store.domains import DomainFilter
from memhint.store.fleet import HostRecord, State
from memhint.store.instances import Instances
from memhint.store.log import Log, LogFilter
from tests.unit import builders
from tests.unit.builders import DB, NOW, WEB

SEQUENCE = count(1)
EPOCH = "000000000000001-00000000"


def claims(store: Store, host: str, project: str | None, *uuids: str) -> None:
    """A report of a host that says that it has these VMs, and whose they are."""
    domains = []
    for one in builders.report().domains:
        if one.observation.uuid in uuids:
            facts: DomainFacts = replace(one.observation.facts, project=project)
            domains.append(replace(one, observation=replace(one.observation, facts=facts)))
    report = builders.report(host=host, epoch=EPOCH, sequence=next(SEQUENCE), domains=tuple(domains))
    store.fleet.take([State(report, 0.0)])


def look(store: Store, *found: Instance, whole: bool = True) -> None:
    """A look at Nova that finds these."""
    begun = store.instances.begin()
    assert begun is not None
    assert store.instances.keep(begun, found)
    store.instances.end(begun, whole=whole, pause=0.0)


def seen_by(store: Store, project: str) -> set[tuple[str, str]]:
    return {(one.host, one.uuid) for one in store.domains.page(DomainFilter(project=project)).items}


def test_without_nova_a_project_sees_what_the_hosts_agree_in(store: Store) -> None:
    claims(store, "host-a", "blue", WEB, DB)
    assert seen_by(store, "blue") == {("host-a", WEB), ("host-a", DB)}
    claims(store, "host-b", "blue", DB)  # as while it moves
    assert seen_by(store, "blue") == {("host-a", WEB), ("host-a", DB), ("host-b", DB)}
    claims(store, "host-b", "red", WEB)
    assert seen_by(store, "blue") == {("host-a", DB)}
    assert seen_by(store, "red") == set()
    one = store.domains.one(WEB)
    assert one is not None
    assert one.project is None
    assert {one.project for one in store.domains.page().items} == {"blue", None}
    claims(store, "host-b", "red")
    assert seen_by(store, "blue") == {("host-a", WEB), ("host-a", DB)}


def test_where_nova_is_followed_no_hosts_word_counts(store: Store) -> None:
    claims(store, "host-a", "blue", WEB)
    claims(store, "evil", "red", WEB, DB)
    look(store, Instance(WEB, "blue", "host-a.example.org"))
    assert seen_by(store, "red") == set()
    assert seen_by(store, "blue") == {("host-a", WEB), ("evil", WEB)}
    one = store.domains.one(WEB)
    assert one is not None
    assert (one.host, one.project) == ("host-a", "blue")
    unknown = store.domains.one(DB)
    assert unknown is not None
    assert unknown.project is None


def test_where_it_runs_is_where_nova_runs_it(store: Store) -> None:
    claims(store, "aaa", "blue", WEB)
    claims(store, "zzz", "blue", WEB)
    for hypervisor in ("zzz", "AAA.example.org"):
        look(store, Instance(WEB, "blue", hypervisor))
        one = store.domains.one(WEB)
        assert one is not None
        assert one.host == hypervisor.lower().partition(".")[0]


def test_events_and_requests_follow_the_same_word(store: Store) -> None:
    claims(store, "host-a", "red", WEB)
    store.reclaims.add(Reclaim(builders.reclaim_request(id="req-1", uuid=WEB, at=NOW)), "host-a")
    store.events.record("host-a", NOW, [builders.lever_state(subject=WEB)])
    log = Log(store.database)
    assert len(store.reclaims.page(project="red").items) == len(log.page(LogFilter(project="red"), 10).items) == 1
    look(store, Instance(WEB, "blue", "host-a"))
    assert store.reclaims.page(project="red").items == log.page(LogFilter(project="red"), 10).items == ()
    assert len(store.reclaims.page(project="blue").items) == len(log.page(LogFilter(project="blue"), 10).items) == 1


@pytest.mark.parametrize("nova", [False, True])
def test_a_project_sees_no_events_and_requests_of_a_host_that_has_not_the_vm(url: str, nova: bool) -> None:
    store = open_store(url)  # of all hosts
    claims(store, "host-a", "blue", WEB)
    claims(store, "evil", "red", DB)
    if nova:
        look(store, Instance(WEB, "blue", "host-a"), Instance(DB, "red", "evil"))
    made = builders.lever_state(subject=WEB)
    for number, name in enumerate(("host-a", "evil")):
        told = Reclaim(builders.reclaim_request(id=f"req-{number}", uuid=WEB))
        event = Event(NOW, name, WEB, made.lever, made.desired, made.verdict)
        store.fleet.take([], [HostRecord(name, (), (event,), 0, (told,))])
    log = Log(store.database)
    for project, hosts in (("blue", ["host-a"]), ("red", [])):
        assert [one.host for one in store.reclaims.page(project=project).items] == hosts
        assert [one.host for one in log.page(LogFilter(project=project), 10).items] == hosts
    assert len(store.reclaims.page().items) == len(log.page(LogFilter(kind="lever"), 10).items) == 2
    store.close()


def test_a_first_list_that_is_not_whole_changes_nothing_yet(store: Store) -> None:
    claims(store, "host-a", "blue", WEB)
    begun = store.instances.begin()
    assert begun is not None
    assert (begun.last, begun.whole) == (None, None)
    store.instances.keep(begun, [Instance(DB, "red", None)])
    assert seen_by(store, "blue") == {("host-a", WEB)}
    store.instances.end(begun, whole=True, pause=0.0)
    assert seen_by(store, "blue") == set()
    store.instances.leave()
    assert seen_by(store, "blue") == {("host-a", WEB)}


def test_a_whole_list_drops_what_is_not_in_it_and_changes_drop_what_was_deleted(store: Store) -> None:
    look(store, Instance(WEB, "blue", "host-a"), Instance(DB, "blue", "host-a"))
    look(store, Instance(DB, "blue", None, gone=True), whole=False)
    assert store.instances.of(WEB) == Instance(WEB, "blue", "host-a")
    assert store.instances.of(DB) is None
    look(store, Instance(DB, "red", "host-b"))
    assert store.instances.of(WEB) is None
    assert store.instances.of(DB) == Instance(DB, "red", "host-b")


def test_who_asks_for_changes_is_told_of_another_owner(store: Store) -> None:
    claims(store, "host-a", "blue", WEB, DB)
    look(store, Instance(WEB, "blue", "host-a"), Instance(DB, "blue", "host-a"))
    token = store.domains.token()
    look(store, Instance(WEB, "blue", "host-a"), Instance(DB, "blue", "host-a"))
    assert store.domains.changed(token).items == ()
    look(store, Instance(WEB, "red", "host-a"), whole=False)
    assert [(one.uuid, one.project) for one in store.domains.changed(token).items] == [(WEB, "red")]
    token = store.domains.token()
    look(store, Instance(WEB, "red", "host-a"))
    assert [(one.uuid, one.project) for one in store.domains.changed(token).items] == [(DB, None)]


def test_a_clock_that_was_years_ahead_keeps_nobody_from_looking(store: Store) -> None:
    clock = [NOW + 1e8]
    instances = Instances(store.database, lambda _connection: clock[0])
    first = instances.begin()
    assert first is not None
    clock[0] = NOW
    assert instances.begin() is not None


def test_one_looks_at_a_time_and_who_says_nothing_loses_the_turn(store: Store) -> None:
    clock = [NOW]
    instances = Instances(store.database, lambda _connection: clock[0])
    first = instances.begin()
    assert first is not None
    assert instances.begin() is None
    clock[0] += 100
    assert instances.keep(first, [])
    clock[0] += 100
    assert instances.begin() is None
    clock[0] += 100
    second = instances.begin()
    assert second is not None
    assert not instances.keep(first, [Instance(WEB, "red", "evil")])
    instances.end(first, whole=True, pause=0.0)
    assert instances.of(WEB) is None
    instances.end(second, whole=True, pause=30.0)
    assert instances.begin() is None
    clock[0] += 31
    third = instances.begin()
    assert third is not None
    assert (third.last, third.whole) == (second.begun, second.begun)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("host-a", "host-a", True),
        ("Host-A", "host-a.example.org", True),
        ("host-a.example.org", "host-a.", True),
        ("host-a.example.org", "host-a.example.com", False),
        ("host-a", "host-ab", False),
    ],
)
def test_names_of_a_host(one: str, other: str, same: bool) -> None:
    assert same_host(one, other) is same_host(other, one) is same
