"""Real processes for tests: what each does is one function of this file, called by name."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from memhint.objects.policy import Origin
from memhint.store import open_store
from tests.unit import builders

ROOT = Path(__file__).parents[2]


def start(function: str, *words: str) -> subprocess.Popen[str]:
    """A process that calls a function of this file; its lines come one by one on stdout."""
    command = [sys.executable, "-u", "-m", "tests.functional.processes", function, *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def save_for_ever(url: str) -> None:
    """Save report after report; each is named once it is saved."""
    store = open_store(url, host="host-a")
    last = store.reports.newest("host-a")
    domains = builders.report().domains * 20  # large enough that a save takes a while
    for sequence in count(last.sequence + 1 if last else 1):
        store.reports.save(builders.report(sequence=sequence, at=builders.NOW + sequence, domains=domains))
        print(sequence, flush=True)


def read_times(url: str, times: str) -> None:
    """Read the newest report so many times; it must never go back."""
    store = open_store(url, create=False)
    last = 0
    for _ in range(int(times)):
        report = store.reports.newest("host-a")
        assert report is not None
        assert report.sequence >= last
        last = report.sequence
        store.history.of("host-a")
    print(last, flush=True)


def set_times(url: str, times: str) -> None:
    """Change an operator's wish so many times, as `memhint set` does."""
    store = open_store(url, create=False)
    for number in range(int(times)):
        store.policies.set_operator(builders.WEB, {"reporting": ("on", "off")[number % 2]})
        assert store.policies.inputs()[builders.WEB][Origin.OPERATOR]
    print(times, flush=True)


def open_once(url: str) -> None:
    """Make the store, or find it made."""
    open_store(url, host="host-a").close()


def consume_and_hang(url: str) -> None:
    """Take a report from the broker, and neither keep nor acknowledge it."""
    from memhint.bus.link import LinkSettings
    from memhint.bus.rabbit_consumer import RabbitConsumer

    class Hanging:
        def take(self, batch: Sequence[object]) -> Sequence[str | None]:
            print("holding", flush=True)
            threading.Event().wait()
            return []

        def ready(self) -> None:
            """It is."""

        def poison(self, user: str, why: str) -> None:
            raise AssertionError(why)

        def tick(self) -> None:
            """Nothing else to do."""

    RabbitConsumer(LinkSettings((url,)), Hanging(), batch=10, stopped=lambda: False).run()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
