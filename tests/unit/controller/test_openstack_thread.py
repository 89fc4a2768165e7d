"""What a controller's thread for OpenStack does, by [openstack]."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from memhint.conf.load import load
from memhint.controller.listening import Listening
from memhint.controller.openstack import OpenStackThread
from memhint.controller.shedder import Shedder
from memhint.objects.ladder import Rung
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

    thread._run(fails, "no ratio is written")
    assert listening.seconds() == seconds
    store.close()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[OpenStackThread]:
    file = tmp_path / "memhint.conf"
    file.write_text(f"[openstack]\ncapacity = write\nmigrate = true\ninterval = 0.1\n{LOGIN}")
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    yield OpenStackThread(load([file]), store, Listening())
    store.close()


@pytest.mark.parametrize("hangs", ["_writer", "_shedder"])
def test_neither_of_ratios_and_migrations_waits_for_the_other(both: OpenStackThread, hangs: str) -> None:
    answers, goes_on = threading.Event(), threading.Event()
    rounds: list[bool] = []

    def counted() -> None:
        rounds.append(True)
        if len(rounds) == 2:
            goes_on.set()

    for part in ("_writer", "_shedder"):
        work = (lambda: answers.wait(30.0)) if part == hangs else counted
        setattr(both, part, SimpleNamespace(round=work, counts={}))
    both.start()
    try:
        assert goes_on.wait(10.0)
    finally:
        answers.set()
        both.close()
    assert not any(one.is_alive() for one in both._threads)


def test_who_is_told_to_end_asks_nova_for_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [SimpleNamespace(name=name, rungs=(Rung.MIGRATION,)) for name in "abc"]
    stop, asked = threading.Event(), list[str]()
    view = SimpleNamespace(all=lambda: hosts)
    shedder = Shedder(view, None, None, None, 300.0, {}, stopped=stop.is_set)  # type: ignore[arg-type]

    def one(host: SimpleNamespace) -> bool:
        asked.append(host.name)
        if host.name == "b":
            stop.set()
        return True

    monkeypatch.setattr(shedder, "_one", one)
    assert (shedder.round(), asked) == (2, ["a", "b"])
