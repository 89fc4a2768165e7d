"""A write whose answer is lost may land at any later time: the ratio is memhint's all the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memhint.controller.ratios.release import UNDONE, release
from memhint.controller.ratios.writer import CapacityWriter
from memhint.objects.provider import Inventory, Provider, Tenure
from memhint.objects.units import MIB
from memhint.openstack.errors import NotThere, OpenStackError, Outdated
from memhint.planner.capacity_write import HostCapacity, WriterSettings
from memhint.store.database import Store, open_store
from memhint.store.tables import capacity

PROVIDER = "11111111-1111-1111-1111-111111111111"
ON_TIME, LATE, LOST, REPEATED = "on time", "late", "lost", "repeated"


class Placement:
    """One provider of 10 GiB. ``fates`` says what becomes of the next writes; the late ones land with ``land``."""

    def __init__(self) -> None:
        self.inventory = Inventory(1, 10240, 0, 1.0, {})
        self.fates: list[str] = []
        self.late: list[tuple[int, float]] = []
        self.ratios: list[float] = [1.0]
        self.is_marked = False
        self.is_there = True
        self.meanwhile: list[Callable[[], None]] = []  # what happens right after the next reads, one each

    def provider(self, uuid: str) -> Provider:
        """As it is now."""
        if not self.is_there:
            raise NotThere("not found")
        found = Provider(uuid, "a", self.inventory, {})
        if self.meanwhile:
            self.meanwhile.pop()()
        return found

    def set_ratio(self, uuid: str, inventory: Inventory, ratio: float) -> Inventory:
        """Write, or have the answer lost."""
        fate = self.fates.pop(0) if self.fates else ON_TIME
        if fate is LATE:
            self.late.append((inventory.generation, ratio))
        if fate in (LATE, LOST):
            raise OpenStackError("it did not answer in time")
        self.land()  # what waited for the same lock comes first
        self._put(inventory.generation, ratio)
        if fate is REPEATED:  # the first answer was lost, and keystoneauth asked again
            self._put(inventory.generation, ratio)
        return self.inventory

    def land(self) -> None:
        """What was late arrives."""
        late, self.late = self.late, []
        for generation, ratio in late:
            if generation == self.inventory.generation:
                self._put(generation, ratio)

    def claim(self) -> None:
        """A VM comes or goes: it moves the generation, and no ratio."""
        self.inventory = replace(self.inventory, generation=self.inventory.generation + 1)

    def mark(self, uuid: str, *, managed: bool) -> None:
        """The trait, without a generation."""
        self.is_marked = managed

    def marked(self, uuid: str) -> bool:
        """Whether it is there."""
        return self.is_marked

    def _put(self, generation: int, ratio: float) -> None:
        if generation != self.inventory.generation:
            raise Outdated("the generation has changed")
        self.inventory = replace(self.inventory, generation=generation + 1, ratio=ratio)
        self.ratios.append(ratio)


class Site:
    """A host, and any number of controllers."""

    def __init__(self, store: Store) -> None:
        self.store, self.placement = store, Placement()
        self.view = HostCapacity(
            "a", PROVIDER, None, False, 0, 1024 * MIB, 0, {}, epoch="000000000000001-aaaaaaaa", sequence=1
        )
        self.said: list[str] = []

    def lose_a_write(self, writer: CapacityWriter) -> None:
        """A ratio of 1.36 is on its way to Placement, and the writer hears nothing of it."""
        self.placement.fates = [LATE]
        self.report(14000)
        writer.round()

    def writer(self, holder: str = "one", refresh: float = 0.0) -> CapacityWriter:
        return CapacityWriter(
            lambda: [self.view],
            self.store.capacities,
            self.placement,
            lambda _host, what: self.said.append(what),
            WriterSettings(),
            holder,
            write=True,
            refresh=refresh,
            sleep=lambda _seconds: None,
        )

    def report(self, headroom: int) -> None:
        """:param headroom: MiB"""
        self.view = replace(self.view, headroom=headroom * MIB, sequence=self.view.sequence + 1)

    @property
    def ratio(self) -> float:
        return self.placement.inventory.ratio

    @property
    def tenure(self) -> Tenure:
        return self.store.capacities.all()[0].tenure


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    yield Site(store)
    store.close()


@pytest.mark.parametrize("other", [False, True])
def test_a_write_that_lands_before_the_next_one_is_no_strangers(site: Site, other: bool) -> None:
    writer = site.writer()
    site.placement.fates = [LATE]
    seen = []
    for headroom in (14000, 3000, 2000, 0):
        site.report(headroom)
        writer.round()
        seen.append(site.ratio)
        if other:
            writer = site.writer("other")
    assert seen == [1.0, 0.29, 0.19, 0.0]
    assert site.tenure is Tenure.MANAGED


def test_a_write_that_lands_after_the_next_one_was_lost_is_no_strangers(site: Site) -> None:
    writer = site.writer()
    for headroom, fate in ((14000, LATE), (3000, LATE), (2000, LOST), (1000, LATE)):
        site.placement.fates = [fate]
        site.report(headroom)
        writer.round()
    site.placement.land()
    site.report(2000)
    writer.round()
    assert (site.ratio, site.tenure) == (0.19, Tenure.MANAGED)


@pytest.mark.parametrize("refresh", [0.0, 60.0])
@pytest.mark.parametrize("stale", [False, True])
def test_a_lost_write_lands_no_more_once_what_stands_there_is_wanted_again(
    site: Site, stale: bool, refresh: float
) -> None:
    writer = site.writer(refresh=refresh)
    headroom, ratio = (10240, 1.0) if stale else (12000, 1.17)
    site.report(2048)
    writer.round()
    site.report(headroom)
    writer.round()
    assert site.ratio == ratio
    site.lose_a_write(writer)
    site.report(headroom)
    site.view = replace(site.view, stale=stale)
    writer.round()
    site.placement.land()
    assert site.ratio == ratio
    written = list(site.placement.ratios)
    for _ in range(3):
        writer.round()
    (standing,) = site.store.capacities.all()
    assert (standing.written, standing.intended) == (ratio, None)
    assert standing.tenure is (Tenure.NOMINAL if stale else Tenure.MANAGED)
    assert (site.placement.ratios, writer.counts["overtaken"]) == (written, 0), "and it is settled once"


def test_a_lost_write_that_lands_while_it_is_settled_is_seen(site: Site) -> None:
    writer = site.writer()
    site.report(12000)
    writer.round()
    site.lose_a_write(writer)
    site.report(12000)
    site.placement.meanwhile = [site.placement.land]
    writer.round()
    assert (site.ratio, site.tenure) == (1.17, Tenure.MANAGED)
    assert site.placement.ratios == [1.0, 1.17, 1.36, 1.36, 1.17]  # it landed, was confirmed, and went


def test_a_host_that_falls_silent_is_nominal_whenever_its_last_write_lands(site: Site) -> None:
    writer = site.writer()
    site.report(12000)
    writer.round()
    site.lose_a_write(writer)
    site.view = replace(site.view, stale=True)
    writer.round()
    assert site.ratio == 1.0
    assert site.placement.ratios == [1.0, 1.17, 1.36, 1.36, 1.0]  # it landed, was confirmed, and went
    site.placement.fates = [LATE]
    site.view = replace(site.view, stale=False)
    site.report(14000)
    writer.round()
    site.placement.late.clear()
    site.view = replace(site.view, stale=True)
    writer.round()
    assert max(site.placement.ratios[5:], default=1.0) == 1.0  # one that never lands is not written to be known


def test_a_write_that_was_repeated_on_its_way_is_no_strangers(site: Site) -> None:
    writer = site.writer()
    site.placement.fates = [REPEATED]
    site.report(14000)
    writer.round()
    assert (site.ratio, site.tenure) == (1.36, Tenure.MANAGED)
    site.placement.fates = [REPEATED, REPEATED]
    site.report(3000)
    writer.round()
    assert (site.ratio, site.tenure) == (0.29, Tenure.MANAGED)


def test_a_lost_write_that_arrived_is_known_while_the_next_one_is_lost_too(site: Site) -> None:
    writer = site.writer()
    site.lose_a_write(writer)
    site.placement.land()
    site.placement.fates = [LOST]
    site.report(3000)
    writer.round()
    site.report(3000)
    writer.round()
    assert (site.ratio, site.tenure) == (0.29, Tenure.MANAGED)


def test_a_stranger_is_still_seen_while_a_write_is_not_confirmed(site: Site) -> None:
    writer = site.writer()
    site.placement.fates = [LOST]
    site.report(14000)
    writer.round()
    site.placement.inventory = replace(site.placement.inventory, generation=9, ratio=3.0)
    site.report(3000)
    writer.round()
    assert (site.ratio, site.tenure) == (3.0, Tenure.CONFLICT)


def test_what_lands_after_uninstall_lands_no_more(site: Site) -> None:
    writer = site.writer()
    site.lose_a_write(writer)
    release(site.store.capacities.all()[0], site.store.capacities, site.placement)
    site.placement.land()
    assert site.ratio == 1.0


def test_uninstall_knows_what_was_written_since_its_list_was_read(site: Site) -> None:
    writer = site.writer()
    site.report(12000)
    writer.round()
    (old,) = site.store.capacities.all()
    site.report(14000)
    writer.round()
    assert release(old, site.store.capacities, site.placement) == "1.36 -> 1"
    assert (site.ratio, site.tenure) == (1.0, Tenure.RELEASED)


def test_an_uninstall_that_failed_halfway_says_so_until_it_was_run_again(site: Site) -> None:
    writer = site.writer()
    site.report(14000)
    writer.round()
    site.placement.fates = [LOST]
    with pytest.raises(OpenStackError):
        release(site.store.capacities.all()[0], site.store.capacities, site.placement)
    (halfway,) = site.store.capacities.all()
    assert (site.ratio, halfway.tenure, halfway.detail) == (1.36, Tenure.RELEASED, UNDONE)
    assert "again" in UNDONE
    site.report(3000)
    writer.round()
    assert UNDONE not in site.said, "it may be at work at this moment"
    for _ in range(3):
        writer.round()
    assert (site.said.count(UNDONE), writer.counts["failed"], site.ratio) == (1, 1, 1.36)
    assert release(halfway, site.store.capacities, site.placement) == "1.36 -> 1"
    (done,) = site.store.capacities.all()
    assert (site.ratio, done.tenure, done.detail) == (1.0, Tenure.RELEASED, "uninstalled")


def test_an_uninstall_whose_provider_is_gone_came_to_its_end(site: Site) -> None:
    site.report(14000)
    site.writer().round()
    site.placement.is_there = False
    assert "gone" in release(site.store.capacities.all()[0], site.store.capacities, site.placement)
    assert site.store.capacities.all()[0].detail == "uninstalled"


@pytest.mark.parametrize("written_first", [True, False], ids=["has the last word", "has it land no more"])
def test_uninstall_in_the_midst_of_a_write(site: Site, written_first: bool) -> None:
    writer = site.writer()
    site.report(12000)
    writer.round()
    (old,) = site.store.capacities.all()
    site.report(14000)
    write = site.placement.set_ratio

    def set_ratio(uuid: str, inventory: Inventory, ratio: float) -> Inventory:
        site.placement.set_ratio = write
        if written_first:
            after = write(uuid, inventory, ratio)
            release(old, site.store.capacities, site.placement)
            return after
        release(old, site.store.capacities, site.placement)
        return write(uuid, inventory, ratio)

    site.placement.set_ratio = set_ratio
    for _ in range(2):
        writer.round()
        site.report(14000)
    assert (site.ratio, site.tenure) == (1.0, Tenure.RELEASED)


def test_a_host_that_was_put_back_is_not_told_as_somebody_elses(site: Site) -> None:
    site.report(14000)
    site.writer().round()
    (old,) = site.store.capacities.all()
    assert release(old, site.store.capacities, site.placement) == "1.36 -> 1"
    (old,) = site.store.capacities.all()
    assert release(old, site.store.capacities, site.placement) == "1 -> 1"
    site.placement.inventory = replace(site.placement.inventory, ratio=3.0)
    assert "somebody else" in release(old, site.store.capacities, site.placement)


def test_what_a_controller_sees_and_hosts_are_called_takes_no_host_back(site: Site) -> None:
    site.report(14000)
    writer = site.writer()
    writer.round()
    (old,) = site.store.capacities.all()
    release(old, site.store.capacities, site.placement)
    site.store.capacities.note(PROVIDER, Tenure.NOMINAL, "of a round that began before")
    assert site.tenure is Tenure.RELEASED
    site.view = replace(site.view, forced_ratio=1.5)
    for name in ("a", "a.example.org"):
        site.view = replace(site.view, host=name)
        site.report(14000)
        writer.round()
        assert (site.ratio, site.tenure) == (1.0, Tenure.RELEASED)
    site.store.capacities.adopt(PROVIDER, "a", 1.0, again=True)
    assert site.tenure is Tenure.MANAGED


def test_a_ratio_falls_while_a_compute_that_wants_its_own_has_not_begun_again(site: Site) -> None:
    writer = site.writer()
    site.report(14000)
    writer.round()
    site.view = replace(site.view, forced_ratio=1.0)
    for headroom, ratio in ((15000, 1.36), (3000, 0.29), (14000, 0.29)):
        site.report(headroom)
        writer.round()
        assert (site.ratio, site.tenure) == (ratio, Tenure.REFUSED)
    assert "unset [DEFAULT] ram_allocation_ratio (1)" in site.store.capacities.all()[0].detail
    site.placement.inventory = replace(site.placement.inventory, generation=99, ratio=1.0)  # now it has
    site.report(0)
    writer.round()
    assert (site.ratio, site.tenure) == (1.0, Tenure.REFUSED)


def _away_and_back(site: Site, writer: CapacityWriter, ratio: float, *, is_marked: bool) -> None:
    """The provider goes for one round, and two more come when it is back."""
    site.placement.is_there = False
    site.report(14000)
    writer.round()
    site.placement.is_there = True
    site.placement.is_marked = is_marked
    site.placement.inventory = Inventory(1, 10240, 0, ratio, {})
    for _ in range(2):
        site.report(14000)
        writer.round()


@pytest.mark.parametrize("spoken_of", [True, False])
@pytest.mark.parametrize("initial", [1.0, 2.0, 1.36])
def test_a_compute_that_was_deleted_and_begun_again_is_taken_over(site: Site, initial: float, spoken_of: bool) -> None:
    writer = site.writer()
    site.report(14000)
    writer.round()
    if not spoken_of:
        site.placement.is_there = False
        site.view = replace(site.view, provider=None)
        writer.round()
        site.view = replace(site.view, provider=PROVIDER)
    _away_and_back(site, writer, initial, is_marked=False)
    (standing,) = site.store.capacities.all()
    assert (site.ratio, standing.tenure, site.placement.is_marked) == (1.36, Tenure.MANAGED, True)
    assert standing.adopted == 1.0
    site.placement.inventory = replace(site.placement.inventory, generation=99, ratio=3.0)
    site.placement.is_marked = False
    site.report(14000)
    writer.round()
    assert site.tenure is Tenure.CONFLICT, "it was there all the time"


def test_a_compute_that_needed_no_other_ratio_is_taken_over_too(site: Site) -> None:
    writer = site.writer()
    site.report(10240)
    writer.round()
    assert site.placement.ratios == [1.0]
    _away_and_back(site, writer, 2.0, is_marked=False)
    assert (site.ratio, site.tenure, site.placement.is_marked) == (1.36, Tenure.MANAGED, True)


def test_a_compute_that_could_not_be_found_for_a_while_is_no_new_one(site: Site) -> None:
    writer = site.writer()
    site.report(14000)
    writer.round()
    _away_and_back(site, writer, 3.0, is_marked=True)
    assert (site.ratio, site.tenure) == (3.0, Tenure.CONFLICT)


def test_a_compute_that_was_given_back_and_made_anew_stays_so(site: Site) -> None:
    writer = site.writer()
    site.report(14000)
    writer.round()
    release(site.store.capacities.all()[0], site.store.capacities, site.placement)
    _away_and_back(site, writer, 2.0, is_marked=False)
    assert (site.ratio, site.tenure, site.placement.is_marked) == (2.0, Tenure.RELEASED, False)


def _lose_all(site: Site) -> None:
    with site.store.database.write() as connection:
        connection.execute(capacity.delete())


@pytest.mark.parametrize(("headroom", "ratio"), [(14000, 1.36), (0, 0.0)])
def test_memhints_own_ratio_is_not_the_one_that_was_found_where_the_database_is_new(
    site: Site, headroom: int, ratio: float
) -> None:
    site.report(headroom)
    site.writer().round()
    assert (site.ratio, site.placement.is_marked) == (ratio, True)
    _lose_all(site)
    writer = site.writer("another life")
    for _ in range(2):
        site.report(headroom)
        writer.round()
    (standing,) = site.store.capacities.all()
    assert (standing.adopted, standing.written, standing.tenure) == (1.0, ratio, Tenure.MANAGED)
    assert sum("does not know any more" in one for one in site.said) == 1
    site.report(3000)
    writer.round()
    assert site.ratio == 0.29
    assert release(site.store.capacities.all()[0], site.store.capacities, site.placement) == "0.29 -> 1"
    assert not site.placement.is_marked


def test_a_ratio_without_the_trait_is_the_one_that_was_found(site: Site) -> None:
    site.placement.inventory = replace(site.placement.inventory, ratio=1.25)
    site.report(14000)
    site.writer().round()
    assert site.store.capacities.all()[0].adopted == 1.25
    assert not any("does not know any more" in one for one in site.said)


def test_what_another_controller_marks_meanwhile_is_of_this_life(site: Site) -> None:
    site.placement.inventory = replace(site.placement.inventory, ratio=1.25)
    site.report(14000)
    site.placement.meanwhile = [lambda: None, site.writer("other").round]
    site.writer().round()
    assert (site.ratio, site.tenure, site.store.capacities.all()[0].adopted) == (1.36, Tenure.MANAGED, 1.25)
    assert not any("does not know any more" in one for one in site.said)


@pytest.mark.parametrize("trial", range(6))
def test_whatever_is_late_and_whoever_writes_it_never_ends_in_a_conflict(site: Site, trial: int) -> None:
    chance = random.Random(trial)
    writers = [site.writer("one"), site.writer("two")]
    for _ in range(40):
        site.placement.fates = chance.choices((ON_TIME, LATE, LOST, REPEATED), (4, 3, 1, 1), k=3)
        if chance.random() < 0.3:
            site.placement.claim()
        if chance.random() < 0.3:
            site.placement.land()
        site.report(chance.randrange(0, 15000))
        if chance.random() < 0.1:  # it ended, and knows nothing
            writers[0] = site.writer("one")
        one, other = chance.sample(writers, 2)
        if chance.random() < 0.5:
            site.placement.meanwhile = [other.round] * chance.choice((1, 1, 2))
        one.round()
    site.placement.fates, site.placement.meanwhile = [], []
    site.report(2000)
    writers[0].round()
    assert (site.ratio, site.tenure) == (0.19, Tenure.MANAGED)
