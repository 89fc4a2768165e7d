"""KSM of the kernel for hosts, with one thread and with several: in a virtual host, which is emulated.

What it takes there is no time of a real host's, and both processors are threads of a machine with other work. So only
what runs in the same virtual host is compared, in turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.figures import figure
from bench.harness.result import BYTES, Arm, Column, Table
from bench.merging_data import PAGE
from lab.patched import host_kernel_folder
from lab.virtual_host import VirtualHost
from memhint.objects.units import MIB

THREADS = (1, 2, 4)
CPUS = 2
TITLE = "two thirds can merge, on the kernel for hosts"
_HERE = Path(__file__).parent
_BESIDE = 320 * MIB  # what the virtual host takes itself


@dataclass(frozen=True, slots=True)
class HostRun:
    """What one run came to: seconds until enough had merged, CPU seconds of all threads, pages."""

    threads: int
    ranges: bool
    seconds: float
    cpu: float
    merged: int
    helped: int
    """Pages that others than ksmd looked at: none, where there were so few that it was faster alone."""
    enough: bool


def in_virtual_host(vms: int, size: int, turns: int, enough: float, patience: float) -> list[HostRun]:
    """Merge with each number of threads, whole VMs and only what has an equal, there and back in each turn.

    :param size: bytes of each VM
    :param enough: the part of what can merge at which the clock stops
    :raises ImageError: when the kernel cannot be built
    """
    files = [_HERE / "inside_ksm.py", _HERE / "merging_data.py"]
    kernel = host_kernel_folder() / "bzImage"
    found: list[HostRun] = []
    with VirtualHost(files, 2 * vms * size + _BESIDE, kernel=kernel, cpus=CPUS) as host:
        can = host.call("inside_ksm.fill", vms=vms, size=size, shared=1 / 3, prefixed=1 / 3)
        ways = [(threads, ranges) for ranges in (False, True) for threads in THREADS]
        for turn in range(turns):
            for threads, ranges in ways if turn % 2 == 0 else reversed(ways):
                told = host.call(
                    "inside_ksm.merge", threads=threads, ranges=ranges, pages=int(enough * can), patience=patience
                )
                if threads == 1 and told["helped"]:
                    raise RuntimeError(f"{told['helped']} pages were looked at by others than ksmd, which was alone")
                done = told["merged"] >= int(enough * can)
                found.append(
                    HostRun(threads, ranges, told["seconds"], told["cpu"], told["merged"], told["helped"], done)
                )
    return found


def host_table(found: Sequence[HostRun]) -> Table:
    """A row for each way."""
    columns = (
        Column("seconds", "until 90 % has merged", "s", 1),
        Column("cpu", "CPU", "s", 2),
        Column("time", "of one thread's time", "", 2),
        Column("part", "of its CPU", "", 2),
        Column("merged", "merged", BYTES, 0),
        Column("helped", "looked at by others than ksmd", BYTES, 0),
    )
    arms = []
    for ranges in (False, True):
        one = _of(found, 1, ranges)
        for threads in THREADS:
            runs = _of(found, threads, ranges)
            all_ = all(run.enough for run in (*runs, *one))
            arms.append(
                Arm(
                    f"{threads} thread{'s' if threads > 1 else ''}{', ranges known before' if ranges else ''}",
                    {
                        "seconds": figure([run.seconds for run in runs]) if all_ else None,
                        "cpu": figure([run.cpu for run in runs]),
                        "time": figure(_ratios(runs, one, "seconds")) if all_ else None,
                        "part": figure(_ratios(runs, one, "cpu")) if all_ else None,
                        "merged": figure([float(run.merged * PAGE) for run in runs]),
                        "helped": figure([float(run.helped * PAGE) for run in runs]),
                    },
                )
            )
    return Table(TITLE, columns, arms)


def ratio(found: Sequence[HostRun], threads: int) -> float | None:
    """The time of so many threads over that of one, whole VMs, the median of the turns; None: too little merged."""
    runs, one = _of(found, threads, False), _of(found, 1, False)
    return median(_ratios(runs, one, "seconds")) if all(run.enough for run in (*runs, *one)) else None


def _of(found: Sequence[HostRun], threads: int, ranges: bool) -> list[HostRun]:
    return [run for run in found if run.threads == threads and run.ranges == ranges]


def _ratios(runs: Sequence[HostRun], one: Sequence[HostRun], what: str) -> list[float]:
    """Turn by turn: the machine's other work comes and goes."""
    return [getattr(run, what) / max(1e-9, getattr(base, what)) for run, base in zip(runs, one, strict=True)]
