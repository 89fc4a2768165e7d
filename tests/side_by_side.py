"""How the tests share a machine when several processes run them: which stay together, and which begin first.

Tests of a file stay in one process, for they share servers and hosts. What others wait for, and what takes long, begins
first, so that nobody is left with it in the end.
"""

from __future__ import annotations

import fcntl
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from lab.ksm import written_down
from lab.paths import cache_dir

WITH_BUILDS = "tests/lab/test_benches_with_ksm.py"
WHOLE_MACHINE = (
    "tests/lab/test_dedup.py",
    "tests/lab/test_dedup_estimate.py",
    "tests/lab/test_finder.py",
    "tests/lab/test_merged_page_timing.py",
    "tests/lab/test_libvirtd_dies.py",
    "tests/lab/test_active.py",
    "tests/lab/test_merge_race.py",
    WITH_BUILDS,
)
"""What changes something for all guests of the machine, as KSM does, or measures by the clock of an emulated one, which
others keep from its processors: no other test has guests meanwhile. The last two stand on QEMU, which is built
meanwhile where the cache is clean."""

FIRST = (
    "tests/patches/test_builds.py",
    *WHOLE_MACHINE,
    "tests/functional/test_faults.py",
    "tests/functional/test_api_fuzz.py",
    "tests/functional/store",
    "tests/functional/dashboard",
    "tests/adversary",
    "tests/functional",
    "tests/unit",
    "tests/patches",
    "tests/lab/test_debian_guest.py",
    "tests/lab",
)
"""What is built, which others wait for; then what has the machine for itself, before all other guests, which wait;
meanwhile what needs no guests; then guests."""

LAST_UNBUILT = ("tests/patches", WITH_BUILDS)
"""What would wait for kernels where the cache is clean, the last ones with the machine for themselves."""

APART = ("tests/lab/test_benches.py", *(f"tests/patches/test_kernel_{name}.py" for name in ("7_3", "6_12", "6_1")))
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
    "tests/functional/test_rpm.py",
    "tests/functional/test_shedder.py",
    "tests/functional/test_wheel.py",
)
"""What the daily round leaves out: three databases, a broker, a browser."""


def file_of(nodeid: str) -> str:
    """The file of a test."""
    return nodeid.partition("::")[0]


def stands_on_builds(args: Sequence[str]) -> bool:
    """Whether a run of these files and folders has tests that stand on kernels and on QEMU."""
    guests = ("tests/lab", "tests/patches")
    return any(one.startswith(arg.rstrip("/")) or arg.startswith(one) for arg in args for one in guests)


def group(nodeid: str, *, built: bool = True) -> str:
    """Tests of one group run in one process, one after another.

    :param built: whether the cache has all that guests of the tests stand on
    """
    file = file_of(nodeid)
    if file in WHOLE_MACHINE and (built or file not in LAST_UNBUILT):
        return WHOLE_MACHINE[0]
    return nodeid if file in APART else file


def rank(name: str, *, built: bool = True) -> int:
    """The place of a group among all."""
    order = FIRST if built else (*(one for one in FIRST if one not in LAST_UNBUILT), *LAST_UNBUILT)
    whole = max((one for one in order if name.startswith(one)), key=len, default=None)
    return len(order) if whole is None else order.index(whole)


def in_order(nodeids: Sequence[str], took: Mapping[str, float] | None = None, *, built: bool = True) -> list[int]:
    """The places of the tests in a new order: by rank, then the longest first, each group in one piece.

    :param took: seconds by group; one that is not there is taken for a long one
    """
    groups = [group(one, built=built) for one in nodeids]
    begins = {name: number for number, name in reversed(list(enumerate(groups)))}
    known = took or {}

    def place(at: int) -> tuple[int, float, int, int]:
        name = groups[at]
        return rank(name, built=built), -known.get(name, float("inf")), begins[name], _within(nodeids[at])

    return sorted(range(len(nodeids)), key=place)


def shuffled(nodeids: Sequence[str], seed: int) -> list[int]:
    """The places of the tests in an order by lot within each file, those of a class in one piece."""
    lot = random.Random(seed)
    files: dict[str, dict[str, list[int]]] = {}
    for at, nodeid in enumerate(nodeids):
        files.setdefault(file_of(nodeid), {}).setdefault(nodeid.partition("[")[0].rpartition("::")[0], []).append(at)
    places = []
    for classes in files.values():
        pieces = list(classes.values())
        lot.shuffle(pieces)
        for piece in pieces:
            lot.shuffle(piece)
            places += piece
    return places


def _within(nodeid: str) -> int:
    """What is to have the machine for itself does so in the order that its files are named in; elsewhere as it is."""
    file = file_of(nodeid)
    return WHOLE_MACHINE.index(file) if file in WHOLE_MACHINE else 0


@contextmanager
def guests_on_this_machine(*, alone: bool) -> Iterator[None]:
    """Held while guests run here: by many at once, or by one who changes something for all of them."""
    path = cache_dir() / "lab" / "guests.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        with written_down() if alone else nullcontext():
            yield


class Alone:
    """The machine for this process alone, from one file to the next one."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._holds = False

    def take(self) -> None:
        """Have it, unless it is held already; waits for all others who have guests."""
        if not self._holds:
            self._held.enter_context(guests_on_this_machine(alone=True))
            self._holds = True

    def leave(self) -> None:
        """Let others have it, where it is held."""
        self._holds = False
        self._held.close()
