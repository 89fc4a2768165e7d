"""What a build costs the host in memory over time: a guest builds, cleans, drops its caches and idles."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.building_guest import Work, building_guest
from bench.figures import Figure, Verdict, figure, percent
from bench.footprints import Track, at, gib_minutes
from bench.harness.bench import Bench, Say
from bench.harness.precondition import ANYWAY, ksm_is_off, no_other_guests, require
from bench.harness.result import BYTES, Arm, Column, Curve, Plot, Result, Table
from bench.harness.scale import Scale
from bench.total import compiled_plugin
from lab import Lab
from lab.agent import AgentProcess
from lab.build_disk import BuildDisk, build_disk
from memhint.objects.units import GIB, MIB

MEMORY = GIB
KERNEL = "6.12-memhint"
GOAL_INSTRUCTIONS = 2.0  # percent more than with reporting off
ARTEFACT = "HyperAlloc (EuroSys '25), clang in 16 GiB"

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "DEFAULT": {"period": 5},
    "guest": {"interval": 10, "max_age": 60},
    "ladder": {"always": "cache, order", "fine_order": 0, "cache_least_mib": 16},
}
"""What an operator sets who wants idle VMs small; the rest is as the lab's agents have it."""


@dataclass(frozen=True, slots=True)
class _Arm:
    name: str
    order: int
    words: str = ""
    agent: bool = False
    published: str = ""
    published_cost: str = ""


NEVER = -1  # what the kernel has where no device asked for reporting

OFF = _Arm("reporting off", NEVER, published="658.6 GiB·min", published_cost="41.18 min")
ORDER_9 = _Arm("order 9", 9, published="434.5 GiB·min, -34.0 %", published_cost="+0.1 % time")
ORDER_0 = _Arm(
    "order 0",
    0,
    "page_reporting.page_reporting_order=0",
    published="390.1 GiB·min, -40.8 %",
    published_cost="+18.1 % time",
)
MEMHINT = _Arm(
    "memhint",
    9,
    agent=True,
    published="HyperAlloc: 357.2 GiB·min, -45.8 %",
    published_cost="HyperAlloc: -0.9 % time",
)
ARMS = (OFF, ORDER_9, ORDER_0, MEMHINT)

_DECODER = (
    "libzstd.a ZSTD_LIB_COMPRESSION=0 ZSTD_LIB_DICTBUILDER=0 ZSTD_LIB_DEPRECATED=0 ZSTD_LEGACY_SUPPORT=0 ZSTD_NO_ASM=1"
)


@dataclass(frozen=True, slots=True)
class _Size:
    what: str
    work: Work
    runs: int
    arms: Sequence[_Arm]


_FULL = _Size("all of zstd's library", Work("libzstd.a", "-O0 -g", 20, 1800), 2, ARMS)
_SIZES = {
    Scale.SMOKE: _Size(
        "one file of zstd", Work("-f /dev/null common/debug.o", "-O0", 1, 240), 1, (OFF, ORDER_0, MEMHINT)
    ),
    Scale.SHORT: _Size("the decoder of zstd's library", Work(_DECODER, "-O0", 5, 900), 2, ARMS),
    Scale.FULL: _FULL,
    Scale.SEED: _FULL,
}

_ABOUT = """
A guest of 1 GiB with one CPU builds zstd's library (`make -j4`, gcc, on ext4), rests, runs `make clean`, rests, drops
its caches and rests once more. Its QEMU's resident memory (`VmRSS`, QEMU's own included) is sampled every second and
integrated from the beginning of the build to the end. While the guest works the clock goes by its instructions, at
one rate for all arms, so that other work on the machine makes no arm dearer; while it rests a second is a second. All
arms boot the same patched kernel and only the reporting differs: off, order 9 as shipped, order 0 by the kernel's
command line, and memhint's agent with `[ladder] always = cache, order`, which has idle guests give back cold page
cache and report small blocks.

What it costs the guest is counted in the same run: its instructions, those of its kernel and of its agent included,
from the beginning of the build to its end, by a plugin in QEMU that slows every arm alike. Emulation runs a build
some forty times slower than a processor does, and the agent looks by the clock. So a build's footprint grows so
slowly here that the agent takes the guest for idle during much of it, and asks it as often per second as it would ask
forty times the work.
"""


def measure(scale: Scale, say: Say) -> Result:
    """Ten to twenty minutes at the short scale, the better part of an hour at the full one, on an idle machine."""
    if ANYWAY not in os.environ:
        ksm_is_off()  # it merges no page of these guests, but takes CPU from them
    no_other_guests()
    size = _SIZES[scale]
    disk = build_disk(say)
    return _result(scale, size, _environment(size, disk), _runs(size, disk, say))


def _environment(size: _Size, disk: BuildDisk) -> dict[str, Any]:
    settings = [f"[{group}] {name} = {value}" for group, options in SETTINGS.items() for name, value in options.items()]
    return {
        "guest": f"{MEMORY // MIB} MiB, 1 CPU, kernel {KERNEL}, extended guest agent",
        "build": f"{disk.source}, {size.what}, make -j4, {size.work.options}, {disk.compiler}",
        "rest": f"{size.work.rest} s after the build, after cleaning and at the end",
        "memhint": ", ".join([*settings, "guest_actions=allow"]),
        "runs": size.runs,
    }


def _runs(size: _Size, disk: BuildDisk, say: Say) -> dict[str, list[Track]]:
    """Tracks by arm, one per repetition; arms take turns."""
    tracks: dict[str, list[Track]] = {arm.name: [] for arm in size.arms}
    with Lab(guests=0, budget=3 * GIB, kernel=KERNEL, agent="memhint") as lab, tempfile.TemporaryDirectory() as scratch:
        plugin = compiled_plugin(Path(scratch))
        host = lab.hosts[0]
        for run in range(1, size.runs + 1):
            for arm in size.arms:
                with ExitStack() as stack:
                    guest = stack.enter_context(
                        building_guest(
                            host,
                            disk,
                            plugin,
                            name="build",
                            memory=MEMORY,
                            reporting=arm.order != NEVER,
                            words=arm.words,
                        )
                    )
                    order = int(guest.guest.meminfo()["page_reporting_order"])
                    require(order == arm.order, f"{arm.name}: the guest reports at order {order}, not {arm.order}")
                    if arm.agent:
                        stack.enter_context(AgentProcess(host, SETTINGS))
                    guest.wait_idle()
                    track = guest.run(size.work)
                tracks[arm.name].append(track)
                say(
                    f"run {run} of {size.runs}, {arm.name}: built in {track.build_seconds:.0f} s, "
                    f"{_area(track.paced(track.rate), size.work.rest):.2f} GiB·min, "
                    f"{track.build_instructions / 1e9:.2f}e9 instructions"
                )
    return tracks


def _result(scale: Scale, size: _Size, environment: dict[str, Any], measured: Mapping[str, Sequence[Track]]) -> Result:
    rest = size.work.rest
    rate = figure(one.rate for found in measured.values() for one in found).median
    tracks = {name: [one.paced(rate) for one in found] for name, found in measured.items()}
    areas = {name: [_area(one, rest) for one in found] for name, found in tracks.items()}
    above = {name: [_area(one, rest, above=True) for one in found] for name, found in tracks.items()}
    counted = {name: [float(one.build_instructions) for one in found] for name, found in tracks.items()}
    rows, costs = [], []
    for arm in size.arms:
        found, base = tracks[arm.name], arm is OFF
        rows.append(
            Arm(
                arm.name,
                {
                    "area": figure(areas[arm.name]),
                    "change": None if base else percent(areas[arm.name], areas[OFF.name]),
                    "above": figure(above[arm.name]),
                    "above_change": None if base else percent(above[arm.name], above[OFF.name]),
                    "peak": figure(one.peak for one in found),
                    "building": figure(one.mean("build", "built") for one in found),
                    "built": _level(found, "clean"),
                    "cleaned": _level(found, "drop"),
                    "end": figure(at(one.samples, _end(one, rest)) for one in found),
                },
                arm.published,
            )
        )
        costs.append(
            Arm(
                arm.name,
                {
                    "instructions": figure(counted[arm.name]).times(1e-9),
                    "more": None if base else percent(counted[arm.name], counted[OFF.name]),
                    "cpu": figure(one.build_cpu for one in found),
                    "seconds": figure(one.build_seconds for one in measured[arm.name]),
                },
                arm.published_cost,
            )
        )
    ratio = figure(one / other for one, other in zip(areas[MEMHINT.name], areas[ORDER_0.name], strict=True))
    more = percent(counted[MEMHINT.name], counted[OFF.name])
    return Result(
        "footprint",
        scale,
        environment,
        (
            Table("Resident memory over time", _MEMORY, rows, ARTEFACT),
            Table("What the build took", _COST, costs, ARTEFACT),
        ),
        (
            Verdict("GiB·min of memhint over order 0", 1.0, None, ratio.median),
            Verdict("percent more guest instructions than with reporting off", GOAL_INSTRUCTIONS, None, more.median),
        ),
        (
            Plot(
                "Resident memory of a guest that builds, cleans, drops its caches and idles (first run)",
                "MiB",
                "seconds since the build began",
                tuple(_curve(arm.name, tracks[arm.name][0], rest) for arm in size.arms),
            ),
            Plot("Memory times time", "GiB·min", column="area"),
        ),
        _notes(size, tracks, rate),
    )


def _notes(size: _Size, tracks: Mapping[str, Sequence[Track]], rate: float) -> tuple[str, ...]:
    floor = figure(one.samples[0][1] for found in tracks.values() for one in found).median
    most = max(one.peak for found in tracks.values() for one in found) - floor
    notes = [
        f"A second in which the guest works is {rate / 1e6:.0f} million instructions: the median of what a second of "
        "QEMU's CPU brought.",
        f"Before the build a guest has {floor / MIB:.0f} MiB, most of it QEMU's own, and the build adds at most "
        f"{most / MIB:.0f}, where the published one fills 16 GiB: shares of the whole are smaller here.",
    ]
    for arm in size.arms:
        first = tracks[arm.name][0]
        began = ", ".join(f"{name} {first.began[name]:.0f}" for name in ("built", "clean", "cleaned", "drop"))
        notes.append(f"{arm.name}, first run, seconds at which phases began: {began}.")
    return tuple(notes)


def _end(track: Track, rest: int) -> float:
    """When the guest had rested once more after its caches were dropped."""
    return min(track.end, track.began["idle"] + rest)


def _area(track: Track, rest: int, *, above: bool = False) -> float:
    """GiB x minutes from the beginning of the build to the end.

    `above`: beyond what the booted guest had, for QEMU itself and a kernel at rest can be returned by nobody.
    """
    end = _end(track, rest)
    start = track.samples[0][1] / GIB * end / 60 if above else 0.0
    return gib_minutes(track.samples, 0, end) - start


def _level(found: Sequence[Track], phase: str) -> Figure:
    """Resident bytes as a phase begins: what the one before it left."""
    return figure(at(one.samples, one.began[phase]) for one in found)


def _curve(name: str, track: Track, rest: int) -> Curve:
    end = _end(track, rest)
    return Curve(name, tuple((round(when, 1), round(size / MIB, 1)) for when, size in track.samples if when <= end))


_MEMORY = (
    Column("area", "footprint", "GiB·min", 3),
    Column("change", "against off", "%"),
    Column("above", "above its start", "GiB·min", 3),
    Column("above_change", "against off", "%"),
    Column("peak", "peak", BYTES, 0),
    Column("building", "mean of the build", BYTES, 0),
    Column("built", "left by the build", BYTES, 0),
    Column("cleaned", "left by cleaning", BYTES, 0),
    Column("end", "at the end", BYTES, 0),
)
_COST = (
    Column("instructions", "guest instructions", "10⁹", 2),
    Column("more", "against off", "%", 2),
    Column("cpu", "CPU of QEMU", "s"),
    Column("seconds", "wall time (indicative)", "s"),
)

BENCH = Bench("footprint", "Footprint of a build", _ABOUT, measure)
