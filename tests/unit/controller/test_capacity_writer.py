"""No host keeps the writer from the others. What it writes: tests/functional/test_capacity_writer.py."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from memhint.controller.ratios.writer import CapacityWriter
from memhint.objects.provider import Inventory, Provider
from memhint.objects.units import MIB
from memhint.openstack.errors import NotThere, OpenStackError
from memhint.planner.capacity_write import HostCapacity, WriterSettings
from memhint.store import Store
from memhint.store.database import open_store

FIRST, SECOND = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
SILENT = [
    HostCapacity(host, uuid, None, stale=True, headroom=0, slot=1024 * MIB, slot_overhead=0)
    for host, uuid in (("a", FIRST), ("b", SECOND))
]


class Placement:
    """Two providers, of which one can be made to fail."""

    def __init__(self, fails: Mapping[str, Exception]) -> None:
        inventory = Inventory(1, 8192, 0, 1.5, {"min_unit": 1, "max_unit": 8192, "step_size": 1})
        self.now = {uuid: Provider(uuid, name, inventory, {}) for uuid, name in ((FIRST, "a"), (SECOND, "b"))}
        self._fails = fails

    def provider(self, uuid: str) -> Provider:
        """As it is now."""
        return self.now[uuid]

    def set_ratio(self, uuid: str, inventory: Inventory, ratio: float) -> Inventory:
        """Write, or fail."""
        if uuid in self._fails:
            raise self._fails[uuid]
        after = replace(inventory, generation=inventory.generation + 1, ratio=ratio)
        self.now[uuid] = replace(self.now[uuid], inventory=after)
        return after

    def mark(self, uuid: str, *, managed: bool) -> None:
        """No traits here."""

    def marked(self, uuid: str) -> bool:
        """Nor any to find."""
        return False


def writer_of(
    store: Store, placement: Placement, views: Callable[[], list[HostCapacity]], clock: Callable[[], float]
) -> CapacityWriter:
    """One whose events nobody hears."""
    settings = {"write": True, "refresh": 60.0, "clock": clock}
    return CapacityWriter(
        views, store.capacities, placement, lambda _host, _what: None, WriterSettings(), "holder", **settings
    )


@pytest.mark.parametrize("error", [OpenStackError("it says no"), ZeroDivisionError("a defect")])
def test_a_host_that_fails_is_counted_and_told_and_the_next_one_is_written(tmp_path: Path, error: Exception) -> None:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    placement = Placement({FIRST: error})
    told: list[tuple[str, str]] = []
    writer = CapacityWriter(
        lambda: SILENT,
        store.capacities,
        placement,
        lambda host, what: told.append((host, what)),
        WriterSettings(),
        "holder",
        write=True,
        refresh=60.0,
    )
    writer.round()
    assert placement.now[SECOND].inventory.ratio == 1.0
    assert placement.now[FIRST].inventory.ratio == 1.5
    assert writer.counts["failed"] == 1
    assert [host for host, what in told if what.startswith("not written, tried again")] == ["a"]
    store.close()


def test_who_is_told_to_end_does_not_go_on_to_the_next_host(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    placement, stop = Placement({}), threading.Event()
    writer = CapacityWriter(
        lambda: SILENT,
        store.capacities,
        placement,
        lambda _host, _what: stop.set(),
        WriterSettings(),
        "holder",
        write=True,
        refresh=60.0,
        stopped=stop.is_set,
    )
    writer.round()
    assert [placement.now[uuid].inventory.ratio for uuid in (FIRST, SECOND)] == [1.0, 1.5]
    writer.round()
    assert placement.now[SECOND].inventory.ratio == 1.5
    stop.clear()
    writer.round()
    assert placement.now[SECOND].inventory.ratio == 1.0
    store.close()


def test_a_provider_that_gets_the_name_of_its_host_is_written(tmp_path: Path) -> None:
    """Its compute service was set up under another name first."""
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    placement, now = Placement({}), [0.0]
    placement.now[FIRST] = replace(placement.now[FIRST], name="localhost")
    writer = writer_of(store, placement, lambda: SILENT[:1], lambda: now[0])
    writer.round()
    assert writer.counts["unverified"] == 1
    placement.now[FIRST] = replace(placement.now[FIRST], name="a")
    for now[0] in (59.0, 60.0, 61.0):
        assert placement.now[FIRST].inventory.ratio == 1.5
        writer.round()
    assert placement.now[FIRST].inventory.ratio == 1.0
    store.close()


def test_a_provider_that_stays_gone_is_looked_for_less_and_less(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    placement, now = Placement({}), [0.0]
    views = SILENT[:1]
    writer = writer_of(store, placement, lambda: views, lambda: now[0])
    writer.round()
    assert placement.now[FIRST].inventory.ratio == 1.0
    views, looks = [], []
    found = placement.now.pop(FIRST)

    def provider(uuid: str) -> Provider:
        looks.append(now[0])
        if uuid not in placement.now:
            raise NotThere(uuid)
        return placement.now[uuid]

    placement.provider = provider  # type: ignore[method-assign]
    for minute in range(1, 24 * 60):
        now[0] = minute * 60.0
        writer.round()
    assert len(looks) <= 6 + 24
    # A host that speaks of it is heard at once.
    placement.now[FIRST] = found
    views, before = SILENT[:1], len(looks)
    writer.round()
    assert len(looks) > before
    store.close()
