"""What an agent that was put together anew takes over from the one before it in the same process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.agent import build as building
from memhint.agent.parts import Stores
from memhint.agent.reclaim_store import NoRequests
from memhint.conf.load import load
from tests.unit import builders

Build = Callable[[], building.Agent]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """Puts agents together whose libvirt is never asked, and which have no levers."""
    (tmp_path / "memhint.conf").write_text("[DEFAULT]\nhost_name = host-a\n[dedup]\nestimate_cpu_percent = 0\n")
    monkeypatch.setattr(building, "build_levers", lambda context: ())
    nothing = cast("Any", SimpleNamespace())
    stores = Stores(nothing, MemoryLedger(), nothing, nothing, nothing, NoRequests())
    built: list[building.Agent] = []

    def put_together() -> building.Agent:
        before = built[-1] if built else None
        built.append(building.build(load([tmp_path / "memhint.conf"]), stores, "epoch", before=before))
        if before is not None:
            built[-1].inherit(before)
        return built[-1]

    yield put_together
    for one in built:
        one.close()


def test_what_qemu_counted_and_what_came_of_it_is_known_after_it(build: Build) -> None:
    before = build()
    vm = builders.domain_observation(process=builders.process(), guest=None)
    before.discarded.join([vm])
    counted = before.counters._known[vm.uuid]
    before.counters._known[vm.uuid] = replace(counted, reading=builders.balloon_reporting(at=builders.NOW))
    before.counters._wall = lambda: builders.NOW
    (known,) = before.discarded.join([vm])
    assert known.reporting_check is not None
    after = build()
    after.counters._wall = lambda: builders.NOW
    assert after.discarded.join([vm]) == [known]
