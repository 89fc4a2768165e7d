"""The capacity writer against a real Placement: what it writes and leaves, and that no race lets a VM too many in."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from uuid import uuid4

import pytest
from sqlalchemy import select

from lab.servers.mariadb import MariaDB
from memhint.conf.load import load
from memhint.controller.ratios.release import release
from memhint.controller.ratios.writer import CapacityWriter
from memhint.objects.provider import Tenure
from memhint.objects.units import MIB
from memhint.openstack.errors import OpenStackError, Outdated
from memhint.openstack.placement import MICROVERSION, TRAIT
from memhint.openstack.placement import Placement as Client
from memhint.openstack.session import service
from memhint.planner.capacity_write import HostCapacity, WriterSettings
from memhint.store.database import Store, open_store
from memhint.store.tables import capacity, host
from memhint.store.upsert import upsert
from tests.functional.servers.placement import Placement
from tests.functional.servers.running import running

_NUMBERS = count(1)
SETTINGS = WriterSettings(most=2.0)


@pytest.fixture(scope="module")
def placement(mariadb: MariaDB) -> Iterator[Placement]:
    with running(Placement(mariadb.create("placement").replace("mariadb+", "mysql+"))) as server:
        yield server


@pytest.fixture
def client(placement: Placement, tmp_path) -> Client:
    conf = tmp_path / "memhint.conf"
    conf.write_text(f"[openstack]\nauth_type = admin_token\ntoken = admin\nplacement_url = {placement.url}\n")
    loaded = load([conf])
    return Client(service(loaded, "placement", MICROVERSION, loaded.openstack.placement_url))


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    yield store
    store.close()


class Fleet:
    """Hosts whose reports the test makes."""

    def __init__(self, placement: Placement, client: Client, store: Store) -> None:
        self.placement, self.client, self.store = placement, client, store
        self.views: dict[str, HostCapacity] = {}
        self.said: list[str] = []
        self.writers = count(1)

    def host(self, total: int = 10240, ratio: float = 1.0) -> str:
        name = f"compute-{next(_NUMBERS)}"
        provider = self.placement.add(name, total, ratio)
        self.views[name] = HostCapacity(
            name, provider, None, False, 0, 1024 * MIB, 0, {}, "000000000000001-00000000", 0
        )
        return name

    def report(self, name: str, **news) -> None:
        """:param headroom: MiB"""
        before = self.views[name]
        if "headroom" in news:
            news["headroom"] *= MIB
        after = self.views[name] = replace(before, sequence=before.sequence + 1, **news)
        words = {"epoch": after.epoch, "sequence": after.sequence, "period": 10.0, "silent": 0, "lost": 0}
        with self.store.database.write() as connection:
            upsert(connection, host, {"name": name, **words, "heard": 0.0, "clock_begin": 0.0})

    def provider(self, name: str) -> str:
        provider = self.views[name].provider
        assert provider is not None
        return provider

    def ratio(self, name: str) -> float:
        return self.placement.ratio(self.provider(name))

    def writer(self, write: bool = True, placement=None, settings: WriterSettings = SETTINGS) -> CapacityWriter:
        return CapacityWriter(
            lambda: list(self.views.values()),
            self.store.capacities,
            placement or self.client,
            lambda host, what: self.said.append(f"{host}: {what}"),
            settings,
            f"writer-{next(self.writers)}",
            write=write,
            refresh=0.0,
        )


@pytest.fixture
def fleet(placement: Placement, client: Client, store: Store) -> Fleet:
    return Fleet(placement, client, store)


def test_the_ratio_follows_the_headroom_and_only_when_it_changes(fleet: Fleet) -> None:
    name, writer = fleet.host(), fleet.writer()
    fleet.report(name, headroom=15360)
    writer.round()
    assert fleet.ratio(name) == 1.5
    assert TRAIT in fleet.placement.traits(fleet.provider(name))
    fleet.report(name)
    writer.round()
    assert writer.counts["written"] == 1
    fleet.report(name, headroom=0)
    writer.round()
    assert fleet.ratio(name) == 0.0


def test_the_other_parts_of_the_inventory_stay(fleet: Fleet) -> None:
    name = fleet.host()
    path = f"/resource_providers/{fleet.provider(name)}/inventories"
    before = fleet.placement.ask("GET", path).json()["inventories"]
    fleet.report(name, headroom=2048)
    fleet.writer().round()
    after = fleet.placement.ask("GET", path).json()["inventories"]
    assert after["MEMORY_MB"].pop("allocation_ratio") == 0.2
    before["MEMORY_MB"].pop("allocation_ratio")
    assert after == before


def test_a_dry_run_writes_nothing_and_says_what_it_would(fleet: Fleet) -> None:
    name = fleet.host()
    fleet.report(name, headroom=15360)
    fleet.writer(write=False).round()
    assert fleet.ratio(name) == 1.0
    assert f"{name}: would write the ratio 1 -> 1.5 (headroom)" in fleet.said


def test_a_trial_keeps_nothing_of_what_it_found(fleet: Fleet) -> None:
    name, trial = fleet.host(ratio=1.0), fleet.writer(write=False)
    fleet.report(name, headroom=12288)
    trial.round()
    assert fleet.store.capacities.all() == ()
    fleet.placement.set_ratio(fleet.provider(name), 1.5)  # the operator, who has every right to
    fleet.report(name)
    trial.round()
    assert f"{name}: would write the ratio 1.5 -> 1.2 (headroom)" in fleet.said
    fleet.writer().round()
    assert fleet.ratio(name) == 1.2
    (standing,) = fleet.store.capacities.all()
    assert standing.adopted == 1.5


def test_a_silent_host_goes_back_to_nominal_and_returns(fleet: Fleet) -> None:
    name, writer = fleet.host(ratio=1.2), fleet.writer()
    fleet.report(name, headroom=19000)
    writer.round()
    assert fleet.ratio(name) == 1.85
    fleet.views[name] = replace(fleet.views[name], stale=True)
    writer.round()
    assert fleet.ratio(name) == 1.0
    fleet.report(name, stale=False)
    writer.round()
    assert fleet.ratio(name) == 1.85


def test_a_host_that_no_report_speaks_of_any_more_is_nominal_too(fleet: Fleet) -> None:
    name, writer = fleet.host(), fleet.writer()
    fleet.report(name, headroom=19000)
    writer.round()
    provider = fleet.provider(name)
    fleet.report(name, provider=None)
    writer.round()
    assert fleet.placement.ratio(provider) == 1.0


def test_a_host_that_was_renamed_does_not_share_with_its_silent_former_self(fleet: Fleet) -> None:
    name, writer = fleet.host(), fleet.writer()
    fleet.report(name, headroom=15360)
    writer.round()
    longer = f"{name}.example.org"
    fleet.views[longer] = replace(fleet.views[name], host=longer)
    fleet.report(longer, headroom=12288)
    writer.round()
    assert fleet.ratio(name) == 1.0
    assert any(said.startswith(f"{longer}: left alone, shared: {name}, {longer} claim") for said in fleet.said)
    fleet.report(name, stale=True)
    writer.round()
    assert fleet.ratio(name) == 1.2


@pytest.mark.parametrize("released", [False, True])
def test_a_provider_that_went_with_its_compute_is_no_failure(fleet: Fleet, released: bool) -> None:
    name, writer = fleet.host(), fleet.writer()
    fleet.report(name, headroom=15360)
    writer.round()
    (standing,) = fleet.store.capacities.all()
    if released:
        assert release(standing, fleet.store.capacities, fleet.client) == "1.5 -> 1"
    assert fleet.placement.ask("DELETE", f"/resource_providers/{standing.provider}").status_code == 204
    del fleet.views[name]
    told = list(fleet.said)
    for _ in range(3):
        writer.round()
    assert (writer.counts["failed"], fleet.said) == (0, told)


@pytest.mark.parametrize("released", [False, True])
def test_a_compute_that_was_deleted_and_begun_again_is_taken_over(fleet: Fleet, released: bool) -> None:
    name, writer = fleet.host(), fleet.writer()
    fleet.report(name, headroom=15360)
    writer.round()
    provider = fleet.provider(name)
    if released:
        release(fleet.store.capacities.all()[0], fleet.store.capacities, fleet.client)
    assert fleet.placement.ask("DELETE", f"/resource_providers/{provider}").status_code == 204
    fleet.report(name)
    writer.round()
    assert writer.counts["failed"] == 1
    assert fleet.placement.add(name, 10240, 2.0, uuid=provider) == provider
    for _ in range(2):
        fleet.report(name)
        writer.round()
    (standing,) = fleet.store.capacities.all()
    bears = TRAIT in fleet.placement.traits(provider)
    if released:
        assert (fleet.ratio(name), standing.tenure, bears) == (2.0, Tenure.RELEASED, False)
    else:
        assert (fleet.ratio(name), standing.tenure, bears) == (1.5, Tenure.MANAGED, True)


def test_a_stranger_who_writes_is_not_fought_until_an_operator_says_so(fleet: Fleet) -> None:
    name, writer = fleet.host(), fleet.writer()
    fleet.report(name, headroom=15360)
    writer.round()
    fleet.placement.set_ratio(fleet.provider(name), 3.0)
    for _ in range(3):
        fleet.report(name)
        writer.round()
    assert fleet.ratio(name) == 3.0
    standing = next(one for one in fleet.store.capacities.all() if one.host == name)
    assert standing.tenure is Tenure.CONFLICT
    assert any("conflict" in one and "found 3" in one for one in fleet.said)
    fleet.store.capacities.adopt(fleet.provider(name), name, 3.0, again=True)
    fleet.report(name)
    writer.round()
    assert fleet.ratio(name) == 1.5


def _lose_commits(fleet: Fleet, row: dict[str, object] | None) -> None:
    """What the database has of standings becomes what it was; None: it had nothing."""
    with fleet.store.database.write() as connection:
        connection.execute(capacity.delete())
        if row is not None:
            connection.execute(capacity.insert().values(**row))


def _row(fleet: Fleet, name: str) -> dict[str, object]:
    with fleet.store.database.read() as connection:
        query = select(capacity).where(capacity.c.provider == fleet.provider(name))
        return dict(connection.execute(query).one()._mapping)


@pytest.mark.parametrize("known", [True, False])
def test_a_ratio_of_which_the_database_lost_that_it_was_written_is_no_strangers(fleet: Fleet, known: bool) -> None:
    name, other, writer = fleet.host(ratio=1.25), fleet.writer(), fleet.writer()
    row = None
    if known:
        fleet.report(name, headroom=5120)
        other.round()  # this controller remembers less than the next one
        row = _row(fleet, name)
    before = fleet.views[name]
    fleet.report(name, headroom=15360)
    writer.round()
    assert fleet.ratio(name) == 1.5
    after = fleet.views[name]
    _lose_commits(fleet, row)
    fleet.views[name] = before
    if known:
        other.round()  # a conflict to whoever does not know better, and so nothing is written
    writer.round()  # what is older than what was carried out is not carried out again
    assert fleet.ratio(name) == 1.5
    fleet.views[name] = after
    fleet.report(name)  # the ratio stands where the newest report wants it: the database learns it again
    writer.round()
    standing = next(one for one in fleet.store.capacities.all() if one.host == name)
    assert (standing.adopted, standing.tenure) == (1.25, Tenure.MANAGED)
    fleet.report(name, headroom=2048)
    other.round()
    writer.round()
    assert fleet.ratio(name) == 0.2
    standing = next(one for one in fleet.store.capacities.all() if one.host == name)
    assert release(standing, fleet.store.capacities, fleet.client) == "0.2 -> 1.25"


def test_where_the_database_is_new_memhints_own_ratio_is_known_by_its_trait(fleet: Fleet) -> None:
    name = fleet.host()
    fleet.report(name, headroom=15360)
    fleet.writer().round()
    _lose_commits(fleet, None)
    fleet.report(name)
    fleet.writer().round()
    (standing,) = fleet.store.capacities.all()
    assert (standing.adopted, standing.tenure) == (1.0, Tenure.MANAGED)
    assert release(standing, fleet.store.capacities, fleet.client) == "1.5 -> 1"


def test_a_stranger_who_writes_while_the_database_loses_commits_is_not_fought(fleet: Fleet) -> None:
    name, writer = fleet.host(), fleet.writer()
    fleet.report(name, headroom=5120)
    writer.round()
    row = _row(fleet, name)
    fleet.report(name, headroom=15360)
    writer.round()
    _lose_commits(fleet, row)
    fleet.placement.set_ratio(fleet.provider(name), 3.0)
    for _ in range(3):
        fleet.report(name)
        writer.round()
    assert fleet.ratio(name) == 3.0
    assert next(one for one in fleet.store.capacities.all() if one.host == name).tenure is Tenure.CONFLICT


def test_uninstall_restores_what_was_found_and_nobody_takes_it_again(fleet: Fleet) -> None:
    name, writer = fleet.host(ratio=1.25), fleet.writer()
    fleet.report(name, headroom=15360)
    writer.round()
    standing = next(one for one in fleet.store.capacities.all() if one.host == name)
    assert release(standing, fleet.store.capacities, fleet.client) == "1.5 -> 1.25"
    fleet.report(name, headroom=1024)
    writer.round()
    assert fleet.ratio(name) == 1.25
    assert TRAIT not in fleet.placement.traits(fleet.provider(name))


def test_two_hosts_that_bear_the_name_of_a_provider_are_both_left_alone(fleet: Fleet) -> None:
    one = fleet.host()
    fleet.views[f"{one}.example.org"] = replace(fleet.views[one], host=f"{one}.example.org")
    fleet.report(one, headroom=15360)
    fleet.writer().round()
    assert fleet.ratio(one) == 1.0
    assert sum(" claim provider " in said for said in fleet.said) == 2


@pytest.mark.parametrize("spelt", [str.lower, str.upper, "{{{}}}".format])
def test_a_claim_of_another_hosts_provider_changes_nothing_for_it(fleet: Fleet, spelt: Callable[[str], str]) -> None:
    victim, thief = fleet.host(), fleet.host()
    writer = fleet.writer()
    fleet.report(victim, headroom=5120)
    writer.round()
    assert fleet.ratio(victim) == 0.5
    fleet.report(thief, headroom=0, provider=spelt(fleet.provider(victim)))
    writer.round()
    assert fleet.ratio(victim) == 0.5
    fleet.report(victim, headroom=15360)  # nor is the victim frozen
    writer.round()
    assert fleet.ratio(victim) == 1.5
    (standing,) = [one for one in fleet.store.capacities.all() if one.provider == fleet.provider(victim)]
    assert (standing.host, standing.tenure) == (victim, Tenure.MANAGED)
    assert writer.counts["unverified"] > 0
    assert any(said.startswith(f"{thief}: left alone, unverified") for said in fleet.said)


def test_a_compute_without_an_agent_gets_no_ratio_by_another_hosts_word(fleet: Fleet) -> None:
    alone, thief = fleet.host(ratio=1.5), fleet.host()
    provider = fleet.provider(alone)
    del fleet.views[alone]
    fleet.report(thief, headroom=0, provider=provider)
    writer = fleet.writer()
    writer.round()
    writer.round()
    assert fleet.placement.ratio(provider) == 1.5
    assert fleet.store.capacities.all() == ()


@pytest.mark.parametrize("claimed", ["", "x" * 300, "../resource_providers"])
def test_what_is_no_uuid_is_nobodys_provider(fleet: Fleet, claimed: str) -> None:
    host, fine = fleet.host(), fleet.host()
    fleet.report(host, provider=claimed)
    fleet.report(fine, headroom=15360)
    fleet.writer().round()
    assert fleet.ratio(fine) == 1.5
    assert any("is no UUID" in said for said in fleet.said)


def test_the_operators_word_joins_names_that_differ(fleet: Fleet) -> None:
    compute = fleet.host()
    provider = fleet.provider(compute)
    fleet.views["rack-7"] = replace(fleet.views.pop(compute), host="rack-7")
    fleet.report("rack-7", headroom=15360)
    fleet.writer().round()
    assert fleet.placement.ratio(provider) == 1.0
    fleet.writer(settings=replace(SETTINGS, providers={"rack-7": provider.upper()})).round()
    assert fleet.placement.ratio(provider) == 1.5


def test_a_provider_that_placement_does_not_have_is_said_and_stops_nobody_else(fleet: Fleet) -> None:
    lost, fine = fleet.host(), fleet.host()
    fleet.views[lost] = replace(fleet.views[lost], provider=str(uuid4()))
    fleet.report(lost, headroom=15360)
    fleet.report(fine, headroom=15360)
    fleet.writer().round()
    assert fleet.ratio(fine) == 1.5
    assert any(said.startswith(f"{lost}: not written") and "compute_id" in said for said in fleet.said)


class LosesAnswers(Client):
    """The write arrives, its answer does not."""

    lose = True

    def set_ratio(self, uuid, inventory, ratio):
        after = super().set_ratio(uuid, inventory, ratio)
        if self.lose:
            self.lose = False
            raise OpenStackError("connection reset")
        return after


def test_a_lost_answer_looks_like_nobody_elses_write(fleet: Fleet) -> None:
    name = fleet.host()
    lossy = LosesAnswers(fleet.client._service)
    writer = fleet.writer(placement=lossy)
    fleet.report(name, headroom=15360)
    writer.round()
    assert writer.counts["failed"] == 1
    fleet.report(name, headroom=5120)
    writer.round()
    assert fleet.ratio(name) == 0.5


class ClaimedMeanwhile(Client):
    """A VM is claimed between the two requests that set the trait."""

    claims = 2

    def mark(self, uuid, *, managed):
        if self.claims:
            self.claims -= 1
            raise Outdated("PUT traits: the generation has changed")
        super().mark(uuid, managed=managed)


def test_the_trait_is_set_though_a_vm_is_claimed_at_that_moment(fleet: Fleet) -> None:
    name = fleet.host()
    writer = fleet.writer(placement=ClaimedMeanwhile(fleet.client._service))
    fleet.report(name, headroom=15360)
    writer.round()
    assert TRAIT in fleet.placement.traits(fleet.provider(name))
    assert (writer.counts["written"], writer.counts["failed"]) == (1, 0)


class AwayAtTheTrait(Client):
    """Placement fails when the trait is to be set, once."""

    failed = False

    def mark(self, uuid, *, managed):
        if not self.failed:
            self.failed = True
            raise OpenStackError("Placement does not answer")
        super().mark(uuid, managed=managed)


@pytest.mark.parametrize("same", [True, False])
def test_a_trait_that_could_not_be_set_is_set_later_by_this_controller_or_another(fleet: Fleet, same: bool) -> None:
    name = fleet.host()
    writer = fleet.writer(placement=AwayAtTheTrait(fleet.client._service))
    fleet.report(name, headroom=15360)
    writer.round()
    assert (fleet.ratio(name), TRAIT in fleet.placement.traits(fleet.provider(name))) == (1.5, False)
    (writer if same else fleet.writer()).round()
    assert TRAIT in fleet.placement.traits(fleet.provider(name))


def test_placement_away_and_back(fleet: Fleet) -> None:
    name, writer = fleet.host(), fleet.writer()
    fleet.report(name, headroom=15360)
    fleet.placement.stop()
    try:
        writer.round()
        assert any("cannot be asked" in said for said in fleet.said)
    finally:
        fleet.placement.start()
    writer.round()
    assert fleet.ratio(name) == 1.5


def test_two_controllers_at_once_write_each_plan_once(fleet: Fleet) -> None:
    names = [fleet.host() for _ in range(4)]
    writers = [fleet.writer(), fleet.writer()]
    for turn in range(6):
        for name in names:
            fleet.report(name, headroom=1024 * (turn + 3))
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(one.round) for one in writers]:
                done.result()
        for one in writers:
            one.round()
        assert [fleet.ratio(name) for name in names] == [pytest.approx(0.1 * (turn + 3))] * 4
    assert sum(one.counts["written"] for one in writers) == 24
    assert not any("conflict" in said for said in fleet.said)


@pytest.mark.parametrize("trial", range(5))
def test_sixteen_boots_into_room_for_ten_while_the_writer_is_busy(fleet: Fleet, trial: int) -> None:
    """Never more than ten, whatever the reports know of them yet; and ten after retries."""
    name = fleet.host(total=10240)
    provider, writer = fleet.provider(name), fleet.writer()
    fleet.report(name, headroom=10240)
    writer.round()
    stop, chance = threading.Event(), random.Random(trial)
    admitted: list[str] = []

    def write() -> None:
        while not stop.is_set():
            # The host sees a VM some time after Placement does, and its headroom falls by all of it.
            seen = admitted[: chance.randint(0, len(admitted))]
            here = fleet.views[name].memory
            seen += [one for one in here if one not in seen]
            room = 10240 - 1024 * len(seen) - chance.choice((0, 0, 200))
            fleet.report(name, memory=dict.fromkeys(seen, 1024 * MIB), headroom=max(0, room))
            writer.round()

    def boot() -> None:
        consumer = str(uuid4())
        for _ in range(3):
            if fleet.placement.claim(provider, consumer, 1024):
                admitted.append(consumer)
                return

    busy = threading.Thread(target=write)
    busy.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(boot) for _ in range(16)]:
                done.result()
        assert len(admitted) <= 10
    finally:
        stop.set()
        busy.join()
    fleet.report(name, memory=dict.fromkeys(admitted, 1024 * MIB), headroom=10240 - 1024 * len(admitted))
    writer.round()
    while len(admitted) < 10:
        before = len(admitted)
        boot()
        assert len(admitted) == before + 1
    boot()
    assert len(admitted) == 10
    assert fleet.placement.used(provider) == 10240
    assert not any("conflict" in said for said in fleet.said)
    assert writer.counts["failed"] == 0
