"""How the tests share a machine when several processes run them: which stay together, and which begin first.

Tests of a file stay in one process, for they share servers and hosts. What others wait for, and what takes long, begins
first, so that nobody is left with it in the end.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from lab.paths import cache_dir

WHOLE_MACHINE = "whole_machine"
"""The mark of tests that change what all guests of the machine feel, as KSM does."""

FIRST = (
    "tests/patches/test_builds.py",
    "whole_machine",
    "tests/functional/test_faults.py",
    "tests/functional/test_api_fuzz.py",
    "tests/functional/store",
    "tests/functional/dashboard",
    "tests/adversary",
    "tests/functional",
    "tests/patches",
    "tests/lab",
)
"""What is built, which others wait for; then `whole_machine`, before all other guests, who wait for its end; meanwhile
what needs no guests; then guests, and what is quick in the end."""

APART = ("tests/lab/test_benches.py", "tests/patches/test_kernel_6_12.py", "tests/patches/test_kernel_6_1.py")
"""Files whose tests share nothing: each may go where there is room."""

SLOW = (
    "tests/functional/dashboard/",
    "tests/functional/store/",
    "tests/functional/test_api_fuzz.py",
    "tests/functional/test_bus.py",
    "tests/functional/test_capacity_writer.py",
    "tests/functional/test_controller.py",
    "tests/functional/test_deb.py",
    "tests/functional/test_dispatch.py",
    "tests/functional/test_faults.py",
    "tests/functional/test_prometheus",
    "tests/functional/test_shedder.py",
    "tests/functional/test_wheel.py",
)
"""What the daily round leaves out: three databases, a broker, a browser."""


class _Item(Protocol):
    nodeid: str

    def get_closest_marker(self, name: str) -> Any: ...


def group(item: _Item) -> str:
    """Tests of one group run in one process, one after another."""
    if item.get_closest_marker(WHOLE_MACHINE):
        return WHOLE_MACHINE
    file = item.nodeid.partition("::")[0]
    return item.nodeid if file in APART else file


def rank(item: _Item) -> int:
    """The place of a test's group among all."""
    where = group(item)
    for number, name in enumerate(FIRST):
        if where.startswith(name):
            return number
    return len(FIRST)


def in_order(items: Sequence[Any]) -> list[Any]:
    """The tests, longest first; each group in one piece and in its own order."""
    first = {group(item): number for number, item in reversed(list(enumerate(items)))}
    return sorted(items, key=lambda item: (rank(item), first[group(item)]))


@contextmanager
def guests_on_this_machine(*, alone: bool) -> Iterator[None]:
    """Held while guests run here: by many at once, or by one who changes something for all of them."""
    path = cache_dir() / "lab" / "guests.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
