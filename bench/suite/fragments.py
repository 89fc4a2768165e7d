"""Fragments: a guest whose free memory is all in single pages, and what each way of getting it back takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libvirt_qemu

from bench import ksm
from bench.cpu import thread_seconds
from bench.duty_host import RECYCLER as THREADS
from bench.figures import Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import ksm_is_off, no_other_guests
from bench.harness.result import BYTES, Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.idle import wait_idle
from bench.total import compiled_plugin, counted, counting, with_plugin
from lab import Guest, Lab
from lab.host import Host
from lab.patched import emulator_program
from memhint.objects.units import GIB, MIB, mib

GOAL_RETURNED = 0.95  # of what order 0 gets back
GOAL_INSTRUCTIONS = 0.2  # of those that order 0 takes
WINDOW = 30.0  # seconds after the last page was freed
PACE = {"recycler-period-ms": 1000, "recycler-max-bytes": 0, "recycler-workers": 1}
PAGE = 4096
_MONITOR = libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP


@dataclass(frozen=True, slots=True)
class Way:
    """How memory that is free in single pages comes back, if it does."""

    name: str
    kernel: str = "6.12-plain"
    reporting: bool = True
    words: str = ""
    ksm: Mapping[str, str] | None = None
    recycler: bool = False


OFF = Way("nothing", reporting=False)
ORDER_9 = Way("reporting, order 9", "6.12-memhint")
ORDER_0 = Way("reporting, order 0", "6.12-memhint", words="page_reporting.page_reporting_order=0")
ZEROED = Way("init_on_free, KSM flat out", reporting=False, words="init_on_free=1", ksm=ksm.FLAT_OUT)
BITMAP = Way("bitmap hinting engine", "6.12-bitmap")
RECYCLER = Way("recycler", "6.12-recycler", recycler=True)
WAYS = (OFF, ORDER_9, ORDER_0, ZEROED, BITMAP, RECYCLER)


@dataclass(frozen=True, slots=True)
class Returned:
    """What one run came to. Bytes are those of the guest's memory that the host holds."""

    resident: int  # in the end
    merged: int  # of them, mapped from KSM's zero page or shared; counted in resident, and cost nothing
    instructions: int  # of the guest, from before it allocates until the end, beyond those of an idle one
    batches: int  # that its balloon reported in that time
    threads_cpu: float  # seconds of QEMU's threads that recycle
    ksm_cpu: float


_ABOUT = """
A guest of 448 MiB allocates memory, writes random content to each page, and frees every other one: what is free then
lies in single pages, which free page reporting of order 9 cannot return. 30 s later the host's share of its memory is
looked at, and what it took: the instructions of the guest, counted by a plugin in QEMU from before the allocation,
without those that the same guest executes while it does nothing, and
the batches that its balloon reported, each of which is an exit and an interrupt with KVM. The recycler has neither;
what is left there are whole blocks, which it leaves to reporting.

`nothing` is what all are measured from. The recycler works at one pass a second with one thread; `init_on_free` zeroes
what is freed, and KSM maps the zero page in its place.
"""


def measure(scale: Scale, say: Say) -> Result:
    """Five minutes."""
    no_other_guests()
    ksm_is_off()
    smoke = scale is Scale.SMOKE
    data, runs = (96 * MIB, 1) if smoke else (240 * MIB, {Scale.SHORT: 1}.get(scale, 3))
    ways = (OFF, ORDER_9, ORDER_0, RECYCLER) if smoke else WAYS
    found: dict[str, list[Returned]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        plugin = compiled_plugin(Path(scratch), str(emulator_program()))
        for way in ways:
            found[way.name] = [_run(way, data, plugin, Path(scratch), 5.0 if smoke else WINDOW) for _ in range(runs)]
            last = found[way.name][-1]
            say(f"{way.name}: {mib(last.resident)} MiB resident, {last.batches} batches")
    return Result(
        "fragments",
        scale,
        {"guest": "448 MiB, 1 CPU", "allocated_mib": mib(data), "free_mib": mib(data // 2), "runs": runs, **PACE},
        (_table(found, data),),
        targets(found),
        (Plot("Guest memory that the host holds", "MiB", column="resident"),),
    )


def targets(found: Mapping[str, list[Returned]]) -> tuple[Verdict, ...]:
    """The recycler against order 0, the median of each."""
    returned = {name: _returned(found, name) for name in found}
    cost = {name: _cost(found, name) for name in found}
    most = float(_batches(found, ORDER_9))
    share = returned[RECYCLER.name] / max(1.0, returned[ORDER_0.name])
    return (
        Verdict("of what order 0 returns", None, GOAL_RETURNED, share),
        Verdict(
            "of the guest instructions that order 0 takes",
            GOAL_INSTRUCTIONS,
            None,
            max(0.0, cost[RECYCLER.name]) / max(1.0, cost[ORDER_0.name]),
        ),
        Verdict("batches, with as many as order 9 has", most, None, float(_batches(found, RECYCLER))),
    )


def _run(way: Way, data: int, plugin: Path, scratch: Path, window: float) -> Returned:
    with Lab(guests=0, memory=448 * MIB, budget=2 * GIB, emulator="memhint", kernel=way.kernel) as lab:
        merging = ksm.scanning(way.ksm) if way.ksm is not None else nullcontext()
        host, counter = lab.hosts[0], scratch / "instructions"
        with merging:
            guest = _started(host, way, plugin, counter)
            if way.recycler:
                for name, value in PACE.items():
                    command = f"qom-set /machine/peripheral/balloon0 {name} {value}"
                    libvirt_qemu.qemuMonitorCommand(guest.domain(), command, _MONITOR)
            wait_idle(guest.pid())
            idle = _rate(counter, window / 3)
            process = Path(f"/proc/{guest.pid()}")
            began = time.monotonic()
            executed, heard = counted(counter), batches(guest.work("read /proc/vmstat")["text"])
            threads, merger = thread_seconds(process, THREADS), ksm.ksmd_seconds()
            guest.fragment("data", data)
            time.sleep(window)
            return Returned(
                guest.memory_resident(),
                zero_pages((process / "ksm_stat").read_text()) if way.ksm is not None else 0,
                round(counted(counter) - executed - idle * (time.monotonic() - began)),
                batches(guest.work("read /proc/vmstat")["text"]) - heard,
                thread_seconds(process, THREADS) - threads,
                ksm.ksmd_seconds() - merger,
            )


def _rate(counter: Path, seconds: float) -> float:
    """Instructions a second of a guest that does nothing: its kernel's clock, its agent. They differ by the boot."""
    executed, began = counted(counter), time.monotonic()
    time.sleep(seconds)
    return (counted(counter) - executed) / (time.monotonic() - began)


def _started(host: Host, way: Way, plugin: Path, counter: Path) -> Guest:
    guest = host.add_guest("one", reporting=way.reporting, recycler=way.recycler, start=False)
    described = with_plugin(guest.domain().XMLDesc(), counting(plugin, counter), way.words)
    host.connection().defineXML(described)
    guest.start()
    return guest


def batches(vmstat: str) -> int:
    """Batches that a guest has reported, of its /proc/vmstat; 0 for a kernel that does not count them."""
    rows = dict(line.split() for line in vmstat.splitlines() if len(line.split()) == 2)
    return int(rows.get("page_report_batch", 0))


def zero_pages(text: str) -> int:
    """Bytes that are mapped from the zero page by KSM, of a /proc/PID/ksm_stat."""
    rows = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    return int(rows.get("ksm_zero_pages", 0)) * PAGE


def _batches(found: Mapping[str, list[Returned]], way: Way) -> int:
    return max((one.batches for one in found.get(way.name, [])), default=0)


def _median(values: list[float]) -> float:
    return figure(values).median


def _returned(found: Mapping[str, list[Returned]], name: str) -> float:
    """Bytes that the host has less than with nothing."""
    held = _median([float(one.resident) for one in found[OFF.name]])
    return held - _median([float(one.resident - one.merged) for one in found[name]])


def _cost(found: Mapping[str, list[Returned]], name: str) -> float:
    base = _median([float(one.instructions) for one in found[OFF.name]])
    return _median([float(one.instructions) for one in found[name]]) - base


def _table(found: Mapping[str, list[Returned]], data: int) -> Table:
    pages = data // 2 / PAGE
    columns = (
        Column("resident", "held by the host", BYTES, 0),
        Column("share", "of what is free, returned", "%", 1),
        Column("instructions", "guest instructions for each free page", "", 0),
        Column("batches", "batches for each GiB returned", "", 0),
        Column("threads", "CPU of recycling threads", "s", 2),
        Column("ksm", "CPU of KSM", "s", 2),
    )
    arms = []
    for name, runs in found.items():
        returned = _returned(found, name)
        figures: dict[str, Any] = {
            "resident": figure([float(one.resident - one.merged) for one in runs]),
            "share": None if name == OFF.name else figure([100 * returned / (data // 2)]),
            "instructions": None if name == OFF.name else figure([_cost(found, name) / pages]),
            "batches": figure([one.batches / (returned / GIB) for one in runs]) if returned >= MIB else None,
            "threads": figure([one.threads_cpu for one in runs]) if name == RECYCLER.name else None,
            "ksm": figure([one.ksm_cpu for one in runs]) if name == ZEROED.name else None,
        }
        arms.append(Arm(name, figures))
    shown = [one for one in columns if any(arm.figures[one.key] is not None for arm in arms)]
    return Table(f"{mib(data // 2)} MiB free in single pages", shown, arms)


BENCH = Bench("fragments", "Memory that is free in single pages", _ABOUT, measure)
