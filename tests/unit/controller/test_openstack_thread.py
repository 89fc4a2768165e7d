"""What a controller's thread for OpenStack does, by [openstack]."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from memhint.conf.load import load
from memhint.controller.listening import Listening
from memhint.controller.openstack import OpenStackThread
from memhint.store import open_store
from memhint.store.errors import StoreError, StoreRefused
from tests.clock import Clock

LOGIN = "auth_type = admin_token\ntoken = x\nplacement_url = http://127.0.0.1:1\nnova_url = http://127.0.0.1:1\n"


@pytest.mark.parametrize(("capacity", "migrate"), [("off", True), ("observe", False), ("write", True)])
def test_ratios_and_migrations_are_asked_for_one_by_one(tmp_path: Path, capacity: str, migrate: bool) -> None:
    file = tmp_path / "memhint.conf"
    file.write_text(f"[openstack]\ncapacity = {capacity}\nmigrate = {str(migrate).lower()}\n{LOGIN}")
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    thread = OpenStackThread(load([file]), store, Listening())
    assert (thread._writer is not None, thread._shedder is not None) == (capacity != "off", migrate)
    assert dict(thread.counts) == {}
    thread.close()
    store.close()


@pytest.mark.parametrize(
    ("error", "seconds"), [(StoreError("away"), 0.0), (StoreRefused("no"), 50.0), (ZeroDivisionError("no"), 50.0)]
)
def test_a_round_that_finds_the_store_away_says_that_nobody_is_heard(
    tmp_path: Path, error: Exception, seconds: float
) -> None:
    file = tmp_path / "memhint.conf"
    file.write_text(f"[openstack]\ncapacity = write\n{LOGIN}")
    store, clock = open_store(f"sqlite:///{tmp_path}/memhint.db"), Clock()
    listening = Listening(clock)
    thread = OpenStackThread(load([file]), store, listening)
    clock.now += 50.0

    def fails() -> None:
        thread._stop.set()
        raise error

    thread._writer = SimpleNamespace(round=fails)  # type: ignore[assignment]
    thread._run()
    assert listening.seconds() == seconds
    store.close()
