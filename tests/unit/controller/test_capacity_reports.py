"""The capacity writer over reports that really came in: the views and what fences a write are the store's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memhint.controller.ratios import turn
from memhint.controller.ratios.writer import CapacityWriter
from memhint.objects.provider import Inventory, NovaCompute, Provider, Tenure
from memhint.objects.units import MIB
from memhint.openstack.errors import OpenStackError, Outdated
from memhint.planner.capacity_write import Decision, HostCapacity, WriterSettings, decide
from memhint.store.capacity_views import CapacityViews
from memhint.store.database import Store, open_store
from memhint.store.fleet import State
from tests.clock import Clock
from tests.unit import builders

PROVIDERS = {name: str(number) * 8 + "-1111-1111-1111-111111111111" for number, name in enumerate("abc", 1)}
EPOCH = "000000000000001-aaaaaaaa"


class Placement:
    """Three empty providers of 10 GiB. ``meanwhile`` takes each request, and the provider's name."""

    def __init__(self) -> None:
        inventory = Inventory(1, 10240, 0, 1.5, {})
        self.now = {uuid: Provider(uuid, name, inventory, {}) for name, uuid in PROVIDERS.items()}
        self.written: list[str] = []  # names of providers, in the order of the writes
        self.meanwhile: Callable[[str, str], None] = lambda _request, _name: None

    def provider(self, uuid: str) -> Provider:
        """As it is now."""
        found = self.now[uuid]
        self.meanwhile("read", found.name)
        return found

    def set_ratio(self, uuid: str, inventory: Inventory, ratio: float) -> Inventory:
        """Write."""
        found = self.now[uuid]
        if inventory.generation != found.inventory.generation:
            raise Outdated("the generation has changed")
        after = replace(inventory, generation=inventory.generation + 1, ratio=ratio)
        self.now[uuid] = replace(found, inventory=after)
        self.written.append(found.name)
        self.meanwhile("write", found.name)
        return after

    def mark(self, uuid: str, *, managed: bool) -> None:
        """No traits here."""

    def marked(self, uuid: str) -> bool:
        """Nor any to find."""
        return False


class Site:
    """Hosts that report again and again, and their providers."""

    def __init__(self, store: Store) -> None:
        self.store, self.placement = store, Placement()
        self.listened = 1e9
        self.views = CapacityViews(store.database, store.hosts_view, lambda: self.listened)
        self.sequences: dict[str, int] = {}
        self.providers: dict[str, str] = {}

    def writer(
        self,
        settings: WriterSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        stopped: Callable[[], bool] = lambda: False,
        write: bool = True,
    ) -> CapacityWriter:
        return CapacityWriter(
            self.views.read,
            self.store.capacities,
            self.placement,
            lambda _host, _what: None,
            settings or WriterSettings(),
            "one",
            write=write,
            refresh=0.0,
            clock=clock,
            sleep=lambda _seconds: None,
            stopped=stopped,
            renewed=self.views.one,
        )

    def report(self, host: str, headroom: int = 0, provider: str | None = None, epoch: str = EPOCH) -> None:
        """:param headroom: MiB"""
        self.sequences[host] = self.sequences.get(host, 0) + 1
        made = builders.report(
            host=host,
            epoch=epoch,
            sequence=self.sequences[host],
            slot=1024 * MIB,
            domains=(),
            plan=builders.plan(capacity=builders.capacity(headroom=headroom * MIB), demands=()),
            nova=NovaCompute(provider) if provider else None,
        )
        assert self.store.fleet.take([State(made, 10.0 * made.sequence)])

    def ratio(self, name: str) -> float:
        return self.placement.now[PROVIDERS[name]].inventory.ratio

    def tenure(self, name: str) -> Tenure:
        (found,) = (one for one in self.store.capacities.all() if one.provider == PROVIDERS[name])
        return found.tenure


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    yield Site(store)
    store.close()


@pytest.mark.parametrize("now", [None, PROVIDERS["c"]])
def test_a_provider_that_its_host_speaks_of_no_more_is_nominal(site: Site, now: str | None) -> None:
    writer = site.writer()
    site.report("a", 12288, PROVIDERS["a"])
    writer.round()
    assert site.ratio("a") == 1.2
    for _ in range(2):
        site.report("a", 12288, now)
        writer.round()
    assert (site.ratio("a"), site.tenure("a")) == (1.0, Tenure.NOMINAL)
    assert site.placement.written == ["a", "a"]
    site.report("a", 12288, PROVIDERS["a"])
    writer.round()
    assert (site.ratio("a"), site.tenure("a")) == (1.2, Tenure.MANAGED)


def test_a_provider_whose_name_two_hosts_bear_is_nominal(site: Site) -> None:
    writer = site.writer()
    site.report("a", 12288, PROVIDERS["a"])
    writer.round()
    for _ in range(2):
        site.report("a", 12288, PROVIDERS["a"])
        site.report("a.example.org", 5120, PROVIDERS["a"])
        writer.round()
    assert (site.ratio("a"), site.tenure("a")) == (1.0, Tenure.NOMINAL)


def test_a_provider_that_the_operator_gives_to_a_host_that_is_not_there_is_nominal(site: Site) -> None:
    site.report("a", 12288, PROVIDERS["a"])
    site.writer().round()
    site.report("a", 12288, PROVIDERS["a"])
    site.writer(WriterSettings(providers={"b": PROVIDERS["a"]})).round()
    assert (site.ratio("a"), site.tenure("a")) == (1.0, Tenure.NOMINAL)


@pytest.mark.parametrize("slow", [("write", "a"), ("read", "b")])
def test_a_host_that_reports_again_before_its_turn_comes_is_written_for_its_newest_report(
    site: Site, slow: tuple[str, str]
) -> None:
    """Rounds over many hosts last longer than a period."""
    newest: list[int] = []

    def meanwhile(request: str, name: str) -> None:
        if (request, name) == slow:
            newest.append(4096 + 512 * len(newest))
            site.report("b", newest[-1], PROVIDERS["b"])

    writer = site.writer()
    site.report("b", 1024, PROVIDERS["b"])
    site.placement.meanwhile = meanwhile
    for headroom in (2048, 3072):
        site.report("a", headroom, PROVIDERS["a"])
        writer.round()
        assert site.ratio("b") == int(newest[-1] / 102.4) / 100
    assert site.ratio("a") == 0.3
    assert writer.counts["overtaken"] == 0


@pytest.mark.parametrize("now", [None, PROVIDERS["c"]])
def test_what_a_host_says_no_more_when_its_turn_comes_is_not_written(site: Site, now: str | None) -> None:
    writer = site.writer()
    site.report("b", 1024, PROVIDERS["b"])
    site.report("a", 2048, PROVIDERS["a"])
    site.placement.meanwhile = lambda request, _name: site.report("b", 1024, now) if request == "write" else None
    writer.round()
    assert site.ratio("b") == 1.5
    assert [one.host for one in site.store.capacities.all()] == ["a"], "nor is it remembered as memhint's"


def test_a_turn_that_is_refused_is_counted_and_comes_in_the_next_round(site: Site) -> None:
    writer = site.writer()
    site.report("a", 2048, PROVIDERS["a"])
    begin = site.store.capacities.begin
    (standing, before) = site.store.capacities.adopt(PROVIDERS["a"], "a", 1.5), site.views.one("a")
    assert before is not None
    standing = replace(standing, epoch=before.epoch, sequence=before.sequence)
    assert begin(standing, 1.5, "another controller")
    writer.round()
    assert (site.ratio("a"), writer.counts["overtaken"]) == (1.5, 1)
    site.store.capacities.end(PROVIDERS["a"], "another controller", 1.5, Tenure.MANAGED, "")
    writer.round()
    assert (site.ratio("a"), writer.counts["overtaken"]) == (0.2, 1)


def test_lower_ratios_do_not_wait_for_the_others(site: Site) -> None:
    writer = site.writer()
    for _ in range(2):
        for name in "abc":
            site.report(name, 5120, PROVIDERS[name])
        writer.round()
    site.placement.written.clear()
    for name, headroom in (("a", 6144), ("b", 5120), ("c", 4096)):
        site.report(name, headroom, PROVIDERS[name])
    writer.round()
    assert site.placement.written == ["c", "a"]


class Slow:
    """A Placement whose reads take so many seconds each, and what it was asked."""

    def __init__(self, site: Site, seconds: float) -> None:
        self.clock, self.asked = Clock(0.0), list[tuple[str, str]]()
        self.also: Callable[[str, str], None] = lambda _request, _name: None
        self._seconds = seconds
        site.placement.meanwhile = self._meanwhile

    def _meanwhile(self, request: str, name: str) -> None:
        self.asked.append((request, name))
        if request == "read":
            self.clock.now += self._seconds
        self.also(request, name)


@pytest.mark.parametrize(("seconds", "reads"), [(4.0, "abc"), (6.0, "acb"), (1.0, "abc")])
def test_a_ratio_that_must_fall_waits_for_no_round_of_others(site: Site, seconds: float, reads: str) -> None:
    slow = Slow(site, seconds)
    writer = site.writer(clock=slow.clock)
    for _ in range(2):
        for name in "abc":
            site.report(name, 5120, PROVIDERS[name])
        writer.round()
    slow.asked.clear()

    def falls(request: str, name: str) -> None:
        if (request, name) == ("read", "a"):
            site.report("c", 1024, PROVIDERS["c"])

    slow.also = falls
    for name in "ab":
        site.report(name, 5120, PROVIDERS[name])
    writer.round()
    assert "".join(name for request, name in slow.asked if request == "read") == reads
    assert ("write", "c") in slow.asked


def test_who_begins_writes_before_all_providers_are_known_and_begins_with_what_must_fall(site: Site) -> None:
    before = site.writer()
    for name in "abc":
        site.report(name, 14336, PROVIDERS[name])
    before.round()
    slow = Slow(site, 3.0)
    writer = site.writer(clock=slow.clock)
    for name, headroom in (("a", 15000), ("b", 3072), ("c", 2048)):
        site.report(name, headroom, PROVIDERS[name])
    writer.round()
    assert slow.asked[:4] == [("read", "a"), ("read", "b"), ("read", "b"), ("write", "b")]
    assert [site.ratio(name) for name in "abc"] == [1.46, 0.3, 0.2]
    assert slow.asked[6:] == [("read", "c"), ("read", "c"), ("write", "c")]


def test_a_trial_looks_at_each_host_once_in_a_round_whatever_would_fall(site: Site) -> None:
    for name in "abc":
        site.report(name, 5120, PROVIDERS[name])
    site.writer().round()
    slow = Slow(site, 6.0)
    trial = site.writer(clock=slow.clock, write=False)
    trial.round()
    slow.asked.clear()
    for name in "abc":
        site.report(name, 1024, PROVIDERS[name])
    trial.round()
    assert slow.asked == [("read", name) for name in "abc"]


def test_each_host_has_its_turn_in_a_round_whatever_falls_meanwhile(site: Site) -> None:
    slow = Slow(site, 100.0)
    writer = site.writer(clock=slow.clock)
    headroom = 14336

    def falls(request: str, _name: str) -> None:
        nonlocal headroom
        if request == "read":
            headroom -= 512
            site.report("b", headroom, PROVIDERS["b"])

    slow.also = falls
    for name in "abc":
        site.report(name, 5120, PROVIDERS[name])
    writer.round()
    assert [site.ratio(name) for name in "ac"] == [0.5, 0.5]


def test_a_provider_that_does_not_tell_its_name_is_asked_once_in_a_round(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(site, 40.0)
    read, failed = site.placement.provider, []

    def provider(uuid: str) -> Provider:
        if uuid == PROVIDERS["a"]:
            failed.append(uuid)
            slow.clock.now += 40.0
            raise OpenStackError("it does not answer in time")
        return read(uuid)

    monkeypatch.setattr(site.placement, "provider", provider)
    writer = site.writer(clock=slow.clock)
    for name in "abc":
        site.report(name, 5120, PROVIDERS[name])
    writer.round()
    assert [site.ratio(name) for name in "abc"] == [1.5, 0.5, 0.5]
    assert (len(failed), writer.counts["failed"]) == (1, 1)


def test_a_claim_that_counts_for_nothing_is_counted_once_in_a_round(site: Site) -> None:
    slow = Slow(site, 100.0)
    writer = site.writer(clock=slow.clock)
    for name in "abc":
        site.report(name, 5120, PROVIDERS[name])
    site.report("stranger", 5120, PROVIDERS["a"])
    for rounds in (1, 2):
        writer.round()
        assert writer.counts["unverified"] == rounds
    assert len(slow.asked) > 3, "it came in slices"


def test_who_is_told_to_end_begins_no_other_slice(site: Site) -> None:
    stop = False
    slow = Slow(site, 100.0)
    writer = site.writer(clock=slow.clock, stopped=lambda: stop)

    def ends(request: str, _name: str) -> None:
        nonlocal stop
        stop = request == "write"

    slow.also = ends
    for name in "abc":
        site.report(name, 5120, PROVIDERS[name])
    writer.round()
    assert len(site.placement.written) == 1


def test_a_host_whose_numbers_have_no_answer_keeps_no_other_one_waiting(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(view: HostCapacity, *others: Any) -> Decision:
        if view.host == "a":
            raise ZeroDivisionError
        return decide(view, *others)

    writer = site.writer()
    for headroom in (5120, 5120, 4096):
        for name in "abc":
            site.report(name, headroom, PROVIDERS[name])
        if headroom == 4096:
            monkeypatch.setattr(turn, "decide", fails)
        writer.round()
    assert [site.ratio(name) for name in "abc"] == [0.5, 0.4, 0.4]
    assert writer.counts["failed"] == 1


def test_what_looks_old_after_an_outage_lowers_nothing_until_all_could_be_heard(site: Site) -> None:
    clock = site.store.fleet._clock = site.store.hosts_view._clock = Clock(builders.NOW)
    writer = site.writer()
    for name in "abc":
        site.report(name, 12288, PROVIDERS[name])
    writer.round()
    clock.now += 100.0  # in which the database was away
    for site.listened in (0.0, 29.0):
        writer.round()
        assert [site.ratio(name) for name in "abc"] == [1.2, 1.2, 1.2]
    site.report("a", 12288, PROVIDERS["a"])
    site.store.fleet.sweep(listened=30.0)
    site.report("b", 12288, PROVIDERS["b"])
    writer.round()
    assert [site.ratio(name) for name in "abc"] == [1.2, 1.2, 1.0], "the sweep has found out"
    clock.now += 31.0
    site.listened = 30.0
    writer.round()
    assert [site.ratio(name) for name in "abc"] == [1.0, 1.0, 1.0]


def test_a_turn_that_comes_after_an_outage_lowers_nothing_either(site: Site) -> None:
    clock = site.store.fleet._clock = site.store.hosts_view._clock = Clock(builders.NOW)
    writer = site.writer()
    site.report("a", 12288, PROVIDERS["a"])
    writer.round()

    def away(_request: str, _name: str) -> None:
        clock.now += 100.0
        site.listened = 0.0

    site.report("a", 10240, PROVIDERS["a"])
    site.placement.meanwhile = away
    writer.round()
    assert site.ratio("a") == 1.2


def test_a_host_that_was_renamed_keeps_its_ratio_while_it_looks_old_after_an_outage(site: Site) -> None:
    clock = site.store.fleet._clock = site.store.hosts_view._clock = Clock(builders.NOW)
    writer = site.writer(WriterSettings(providers={"old": PROVIDERS["a"], "new": PROVIDERS["a"]}))
    site.report("old", 12288, PROVIDERS["a"])
    clock.now += 100.0
    site.store.fleet.sweep()
    site.report("new", 12288, PROVIDERS["a"])
    writer.round()
    clock.now += 100.0
    site.listened = 0.0
    writer.round()
    assert site.ratio("a") == 1.2
    site.listened = 1e9
    writer.round()
    assert site.ratio("a") == 1.0


def test_a_ratio_of_memhints_that_nova_compute_writes_back_is_no_strangers(site: Site) -> None:
    clock = Clock()
    writer = site.writer(clock=clock)
    for headroom in (14336, 6144):
        site.report("a", headroom, PROVIDERS["a"])
        writer.round()
    assert site.ratio("a") == 0.6

    def write(ratio: float) -> None:
        known = site.placement.now[PROVIDERS["a"]]
        inventory = replace(known.inventory, generation=known.inventory.generation + 1, ratio=ratio)
        site.placement.now[PROVIDERS["a"]] = replace(known, inventory=inventory)

    write(1.4)  # as it was read before the last write, with the generation of after
    site.report("a", 0, PROVIDERS["a"])
    writer.round()
    assert (site.ratio("a"), site.tenure("a")) == (0.0, Tenure.MANAGED)
    write(0.6)
    site.report("a", 6144, PROVIDERS["a"])  # it may stay
    writer.round()
    assert (site.ratio("a"), site.tenure("a")) == (0.6, Tenure.MANAGED)
    clock.now += 3600.0
    site.report("a", 1024, PROVIDERS["a"])
    writer.round()  # the store knows it, too
    assert (site.ratio("a"), site.tenure("a")) == (0.1, Tenure.MANAGED)
    clock.now += 3600.0
    write(1.4)  # by somebody who means it
    site.report("a", 0, PROVIDERS["a"])
    writer.round()
    assert (site.ratio("a"), site.tenure("a")) == (1.4, Tenure.CONFLICT)


def test_a_ratio_that_must_fall_is_tried_again_in_the_same_round(site: Site) -> None:
    clock = Clock()
    writer = site.writer(clock=clock)
    for _ in range(2):
        for name in PROVIDERS:
            site.report(name, 12288, PROVIDERS[name])
        writer.round()
    for name, headroom in (("a", 13312), ("b", 13312), ("c", 0)):
        site.report(name, headroom, PROVIDERS[name])
    asked: list[tuple[str, str]] = []

    def meanwhile(request: str, name: str) -> None:
        asked.append((request, name))
        clock.now += 6.0  # a slice has room for one host
        if asked == [("read", "c")]:
            raise OpenStackError("503")

    site.placement.meanwhile = meanwhile
    writer.round()
    first, *others = asked
    assert first == ("read", "c")
    assert others.index(("write", "c")) < others.index(("write", "b"))
    assert site.ratio("c") == 0.0
    asked.clear()
    site.placement.written.clear()

    def away(request: str, name: str) -> None:
        asked.append((request, name))
        clock.now += 6.0
        if name == "c":
            raise OpenStackError("503")

    for name, headroom in (("a", 0), ("b", 0), ("c", 12288)):
        site.report(name, headroom, PROVIDERS[name])
    site.placement.meanwhile = lambda _request, _name: None
    writer.round()
    for name, headroom in (("a", 12288), ("b", 12288), ("c", 0)):
        site.report(name, headroom, PROVIDERS[name])
    site.placement.meanwhile = away
    writer.round()
    assert asked.count(("read", "c")) == 2  # and the others have their turns
    assert [site.ratio(name) for name in "ab"] == [1.2] * 2
