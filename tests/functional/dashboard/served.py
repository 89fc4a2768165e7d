"""A real `memhint api` over a synthetic fleet, and somebody who plays the agent of one of its hosts."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from lab.fleet.fill import fill, follow, keep
from lab.fleet.fleet import Fleet, Shape
from lab.servers.ports import free_ports
from memhint.objects.reclaim import Compaction, Hold, Reclaim, ReclaimState, Stop
from memhint.objects.units import GIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store import StoreError, open_store
from memhint.store.fleet import State
from memhint.store.reclaims import Reclaims

ROOT = Path(__file__).parents[3]
PERIOD = 180.0  # seconds: what is reported as a file of tests begins is fresh until it ends
_PATIENCE = 120.0
# A page that has gone keeps its stream until the server writes to it for the second time: up to half a minute. A file
# of quick tests opens more of them in that time than the 32 that there are.
_STREAMS = 64
_NUMBERS = count(1)


@dataclass(frozen=True)
class Filled:
    """A fleet and the database file that holds it."""

    fleet: Fleet
    file: Path

    def copy(self, folder: Path) -> Filled:
        """The same for a test of its own."""
        copied = folder / "memhint.db"
        shutil.copyfile(self.file, copied)
        own = Filled(self.fleet, copied)
        own.refresh()
        return own

    def refresh(self) -> None:
        """A new report of each host that is not silent."""
        now = time.time()
        store = open_store(self.url, create=False)
        alive = (host for host in range(self.fleet.shape.hosts) if not self.fleet.stale(host))
        newer = (replace(self.fleet.report(host, now), sequence=self.newer(now)) for host in alive)
        keep(store, self.fleet, newer, now)
        store.close()

    def follow(self, stopped: Callable[[], bool]) -> None:
        """Keep it up to date, as its hosts would."""
        store = open_store(self.url, create=False)
        follow(store, self.fleet, stopped)
        store.close()

    def newer(self, at: float) -> int:
        """A sequence number beyond that of the report of a moment, and beyond all that were made before."""
        return self.fleet.sequence(at) + next(_NUMBERS)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.file}"

    def report(self, host: int, period: float | None = None, **changes: object) -> None:
        """A newer report of a host, with another period, or other terms of its capacity."""
        now = time.time()
        known = self.fleet.report(host, now)
        capacity = replace(known.plan.capacity, **changes)  # type: ignore[arg-type]
        newer = replace(
            known,
            sequence=self.newer(now),
            period=period or known.period,
            plan=replace(known.plan, capacity=capacity),
        )
        store = open_store(self.url, create=False)
        store.fleet.take([State(newer, self.fleet.clock(now) + PERIOD)])
        store.close()


def filled(folder: Path, hosts: int, vms: int, past: float = 0.0, period: float = PERIOD) -> Filled:
    """A new store with a fleet in it, and `past` seconds of its history."""
    made = Filled(Fleet(Shape(hosts, vms, period)), folder / "memhint.db")
    store = open_store(made.url)
    fill(store, made.fleet, time.time(), past=past)
    store.close()
    return made


class Api:
    """The process. It keeps its port when it is started again."""

    def __init__(self, store: Filled, *lines: str) -> None:
        self._folder = store.file.parent
        self._lines = lines or ("auth = none",)
        self._store = store
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self._folder / "api.log"

    @property
    def dashboard(self) -> str:
        return f"http://127.0.0.1:{self._port}/dashboard/"

    def start(self) -> None:
        config = self._folder / "memhint.conf"
        store = ["[store]", f"url = {self._store.url}"]
        api = ["[api]", "rate = 0", f"streams = {_STREAMS}", f"listen = 127.0.0.1:{self._port}"]
        config.write_text("\n".join([*store, *api, *self._lines, ""]))
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(config), "api"]
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            self._await(self._process)
        except BaseException:
            self.stop()
            raise

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _PATIENCE
        while "the API is at" not in self._log.read_text():
            assert process.poll() is None, self._log.read_text()
            assert time.monotonic() < until, self._log.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


class Agent(threading.Thread):
    """The agent of the host whose VM hoards memory: it does what is asked, a step at a time, until told to end."""

    def __init__(self, store: Filled) -> None:
        super().__init__(name="agent", daemon=True)
        self._filled = store
        self._stop_asked = threading.Event()
        self._ended_well = False

    def run(self) -> None:
        fleet = self._filled.fleet
        store = open_store(self._filled.url, create=False)
        reclaims = Reclaims(store.database, fleet.name(fleet.hoarder), 86400.0)
        while not self._stop_asked.wait(0.3):
            with suppress(StoreError):  # as a real one: what the store did not take now, it takes next time
                for one in reclaims.open():
                    reclaims.save(further(one))
        store.close()
        self._ended_well = True

    def end(self) -> None:
        """Nothing is done any more once this returns."""
        self._stop_asked.set()
        self.join(_PATIENCE)
        assert self._ended_well, "the agent hangs, or died of what is said above"


def further(one: Reclaim) -> Reclaim:
    """The request, a step further."""
    if one.request.dry_run:
        verdict = Verdict(Answer.PLANNED, Reason.DRY_RUN, "would ask for 24576 MiB, all that was not used recently")
        return replace(one, state=ReclaimState.DONE, verdict=verdict, asked=24 * GIB)
    before = 30 * GIB
    after = (one.after or before) - 8 * GIB
    going = replace(
        one, state=ReclaimState.RUNNING, before=before, after=after, asked=24 * GIB, reclaimed=before - after
    )
    if before - after < 24 * GIB:
        return going
    verdict = Verdict(Answer.APPLIED, Reason.NONE, "the guest gave back what it had not used")
    if one.request.hold:
        held = one.held or Hold(one.request.at, one.request.at + one.request.hold, kept=GIB, used=GIB)
        held = replace(held, again=min(held.again + GIB, 3 * GIB))
        return replace(
            one, state=ReclaimState.HOLDING, stop=Stop.EXHAUSTED, before=before, after=before - 24 * GIB,
            reclaimed=24 * GIB, verdict=verdict, held=held,
        )  # fmt: skip
    return replace(going, state=ReclaimState.DONE, stop=Stop.EXHAUSTED, compaction=Compaction.DONE, verdict=verdict)
