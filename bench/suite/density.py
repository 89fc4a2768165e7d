"""Density: guests without swap on one host, by mechanism alone and by memhint's promise."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from bench import admitted, filled_host, ksm
from bench.admitted import Admitted
from bench.figures import Figure, Verdict, figure
from bench.filled_host import Count, Setup, Sizes
from bench.harness.bench import Bench, Say
from bench.harness.precondition import ksm_is_off, no_other_guests
from bench.harness.result import BYTES, Arm, Column, Curve, Plot, Result, Table
from bench.harness.scale import Scale
from lab.agent import SHORT_HORIZON
from memhint.objects.units import GIB, MIB, mib

GOAL_GUESTS = 40.0  # at 3 GiB, and as many larger ones at 15
GOAL_KSM = 1 / 3  # of the CPU that KSM takes flat out

PLAIN = "6.12-plain"
PACKED: Mapping[str, Mapping[str, Any]] = {
    "DEFAULT": {"period": 2},
    # Each call to an emulated guest's agent takes it a tenth of a second of CPU; idle guests have little to tell.
    "guest": {"interval": 60, "max_age": 180},
    "policy": {"dedup": "on", "guest_actions": "allow"},
    "virt": {"allow_monitor_commands": True},
    "dedup": {"advisor": "adaptive", "estimate_cpu_percent": 0},
    "ladder": {"always": "reporting,cache,order", "climb": 2, "fine_order": 0, "cache_least_mib": 16},
}
"""As an operator sets it whose guests are idle most of the time."""

NOTHING = Setup("no reporting", PLAIN, reporting=False)
STOCK = Setup("stock reporting, order 9", PLAIN)
BITMAP = Setup("bitmap hinting engine", "6.12-bitmap")
FLAT_OUT = Setup("stock reporting, KSM flat out", PLAIN, ksm=ksm.FLAT_OUT)
MEMHINT = Setup("memhint", "6.12-memhint", agent="memhint", memhint=PACKED)
_PUBLISHED = {
    NOTHING.name: "2 without swap, the 3rd swaps 2.3 GB (an earlier run: 3, 1.1 GB)",
    STOCK.name: "bubble hinting v1: 4 without swap, the 5th swaps 1 MB",
    BITMAP.name: "page hinting: 5 without swap, the 6th swaps 8 MB",
}

_ABOUT = """
Guests boot one after another on a host with a budget of memory and disk swap behind it. Each has a third of the
budget, takes four fifths of that, frees it, and stays; the next one starts when the host's usage has not fallen for
8 s (2 s at the short scale). Counted are the guests until more than a MiB was written to swap, even if it has left it
since. The test is that of the page hinting series of 2019 (15 GB, guests of 5 GB with 4 cores, KVM; `--scale seed` has
its sizes), whose figures stand beside ours.

`KSM flat out` is memhint's own fast pace here, 5,000 pages and 20 ms, some 40 % of a core. Held against it is the time
of KSM's thread alone; the agent's has a column of its own.

*By mechanism* leaves the planner's promise aside: guests are added until the host swaps. *By promise* adds them only as
memhint promises room, with swap behind that has to stay unused, and then lets all of them want everything at once. For
that the lab's short horizon holds (`max_ratio` 16, nothing kept for storms, peaks that halve in 3 s): as shipped no
more is promised than 1.5 times what the host has, which on so small a host are the guests that fit without memhint.
Nearly all of the time, more than an hour at `--scale full`, is waiting for hosts to settle. What a guest waits for that
wakes is [a bench of its own](#a-next-allocation), with the same settings.

In every arm the guests' kernel is 6.12 in the same configuration (without patches, with the bitmap, with memhint's
series) on the same QEMU, so that nothing differs but what is compared. QEMU's own memory, which no lever frees, is
larger here than with KVM.
"""


_KERNEL = 176 * MIB
"""What a guest's kernel needs for itself and keeps free: more than a fifth of a small guest."""


def sizes_of(scale: Scale) -> Sizes:
    """Bytes and guests of a scale; what a guest takes is in whole MiB."""
    if scale is Scale.SMOKE:
        # Room for the one guest that memhint is to promise, overhead included, also beside a larger libvirtd.
        return Sizes(
            656 * MIB, 256 * MIB, 80 * MIB, 512 * MIB, most=1, quiet=1.0, translation_cache=filled_host.SMOKE_CACHE
        )
    budget, most = {Scale.SHORT: (896 * MIB, 30), Scale.FULL: (3 * GIB, 60), Scale.SEED: (15 * GIB, 300)}[scale]
    guest = budget // 3 // (4 * MIB) * 4 * MIB
    work = min(guest * 4 // 5, guest - _KERNEL) // MIB * MIB
    if scale is Scale.SHORT:
        # Two thirds of the time went into translating anew what 4 MiB do not hold.
        cache = filled_host.SMOKE_CACHE
        return Sizes(budget, guest, work, 3 * budget, most, quiet=2.0, patience=8.0, translation_cache=cache)
    return Sizes(budget, guest, work, 3 * budget, most)


def measure(scale: Scale, say: Say) -> Result:
    """Guests by the gigabyte: the arms run one after another."""
    no_other_guests()
    ksm_is_off()
    sizes = sizes_of(scale)
    smoke = scale is Scale.SMOKE
    setups = (STOCK, MEMHINT) if smoke else (NOTHING, STOCK, BITMAP, FLAT_OUT, MEMHINT)
    counts = {one.name: filled_host.count(one, sizes, say) for one in setups}
    deadline = 180.0 if smoke else 600.0
    promised = Setup("memhint's promise", MEMHINT.kernel, agent="memhint", memhint=promise_settings(sizes))
    merging = _merging(counts)
    told = {promised.name: admitted.promised(promised, sizes, deadline, say)}
    if scale in (Scale.FULL, Scale.SEED):
        ratio = Setup("a fixed ratio of 1.5", PLAIN)
        told[ratio.name] = admitted.fixed(ratio, sizes, 1.5, deadline, say)
    return Result(
        "density",
        scale,
        _environment(sizes),
        (_mechanism(counts), _left(counts), _promised(told)),
        targets(counts, told[promised.name], scale),
        (
            Plot("Guests without swap", "guests", column="guests"),
            Plot("Memory in use once a guest is idle", "MiB", x="guests", curves=_used(counts)),
            # At the smallest scale a guest may be gone before its turn to be merged comes.
            *((Plot("CPU time of KSM so far", "s", x="guests", curves=merging),) if merging else ()),
        ),
        notes(counts, sizes),
    )


def promise_settings(sizes: Sizes) -> dict[str, dict[str, Any]]:
    """What an agent is told that promises in guests of this size, on a host of this size."""
    planner = {"slot_mib": sizes.guest // MIB}
    reserve = {"reserve_mib": min(256, sizes.budget // 8 // MIB)}
    return {**{name: dict(group) for name, group in PACKED.items()}, "planner": planner, "host": reserve}


def targets(counts: Mapping[str, Count], promise: Admitted, scale: Scale) -> tuple[Verdict, ...]:
    """What was hoped for; those of a peer only where it ran, and the guests where the host is no smaller than meant."""
    mine, peer = counts[MEMHINT.name], counts.get(FLAT_OUT.name)
    found = []
    if scale is not Scale.SHORT:
        found.append(Verdict("guests without swap", None, GOAL_GUESTS, float(mine.guests)))
    # Arms end with different guests after different times: what the same guests took is compared.
    if peer is not None and (both := min(mine.guests, peer.guests)):
        share = mine.ksm_cpu[both - 1] / max(peer.ksm_cpu[both - 1], 0.01)
        found.append(Verdict(f"of KSM's CPU time flat out, for {both} guests", GOAL_KSM, None, share))
    found.append(Verdict("MiB of swap used by admitted guests", filled_host.NO_SWAP / MIB, None, promise.swapped / MIB))
    found.append(Verdict("guests killed or lost in the storm", 0.0, None, float(max(promise.kills, promise.lost))))
    return tuple(found)


def notes(counts: Mapping[str, Count], sizes: Sizes) -> tuple[str, ...]:
    """What the figures do not say by themselves."""
    found = [
        f"{name}: the count was stopped at {one.guests} guests, without swap"
        for name, one in counts.items()
        if one.ended
    ]
    mine = counts[MEMHINT.name]
    if mine.resident:
        own = statistics.mean(one.own for one in mine.resident)
        rest = statistics.mean(one.guest for one in mine.resident)
        found.append(
            f"The rest of an idle memhint guest: {mib(int(rest))} MiB of its memory that nobody else has"
            f" ({mib(sizes.guest // 64)} are its kernel's table of pages), {mib(int(own))} MiB of QEMU's own, of which"
            f" {mib(sizes.translation_cache)} are its translation cache."
        )
    if sizes.work < sizes.guest * 4 // 5 - MIB:
        found.append(
            f"On so small a host a guest takes {100 * sizes.work // sizes.guest} % of its memory, for its kernel needs"
            " the rest: what reporting brings shows less than at the full scale, which the target of"
            f" {GOAL_GUESTS:.0f} guests is meant for."
        )
    return tuple(found)


def _environment(sizes: Sizes) -> dict[str, Any]:
    return {
        **filled_host.environment(sizes),
        "allocation_mib": mib(sizes.work),
        "ksm_flat_out": dict(ksm.FLAT_OUT),
        "lab": {group: dict(options) for group, options in SHORT_HORIZON.items()},
        "memhint": promise_settings(sizes),
    }


def _figure(values: list[float]) -> Figure | None:
    return figure(values) if values else None


def _mechanism(counts: Mapping[str, Count]) -> Table:
    columns = (
        Column("guests", "guests without swap", "", 0),
        Column("swapped", "to swap with one more", BYTES, 0),
        Column("ksm", "CPU of KSM", "s"),
        Column("agent", "CPU of the agent", "s"),
    )
    arms = [
        Arm(
            name,
            {
                "guests": figure([one.guests]),
                "swapped": figure([one.swapped]),
                "ksm": _figure(one.ksm_cpu[-1:]),
                "agent": figure([one.agent_cpu]),
            },
            _PUBLISHED.get(name, ""),
        )
        for name, one in counts.items()
    ]
    return Table("By mechanism", columns, arms, "Test 1 of the series of 2019")


def _left(counts: Mapping[str, Count]) -> Table:
    columns = (
        Column("guest", "guest memory of its own", BYTES),
        Column("merged", "guest memory that is merged", BYTES),
        Column("own", "QEMU's own", BYTES),
        Column("each", "host's usage by guests", BYTES),
    )
    arms = [
        Arm(
            name,
            {
                "guest": figure([seen.guest for seen in one.resident]),
                "merged": figure([seen.merged for seen in one.resident]),
                "own": figure([seen.own for seen in one.resident]),
                "each": figure([one.used[-1] / one.guests]),
            },
        )
        for name, one in counts.items()
        if one.guests
    ]
    return Table("What is left of an idle guest, with as many as fit", columns, arms)


def _promised(told: Mapping[str, Admitted]) -> Table:
    columns = (
        Column("guests", "guests", "", 0),
        Column("swapped", "to swap before the storm", BYTES, 0),
        Column("ksm", "CPU of KSM", "s"),
        Column("agent", "CPU of the agent", "s"),
        Column("wanted", "wanted in the storm", BYTES, 0),
        Column("kills", "killed", "", 0),
        Column("lost", "lost", "", 0),
        Column("slowest", "slowest answer", "s", 0),
        Column("stormed", "swap after it", BYTES, 0),
    )
    arms = [
        Arm(
            name,
            {
                "guests": figure([one.guests]),
                "swapped": figure([one.swapped]),
                "ksm": figure([one.ksm_cpu]),
                "agent": figure([one.agent_cpu]),
                "wanted": figure([one.wanted]),
                "kills": figure([one.kills]),
                "lost": figure([one.lost]),
                "slowest": None if one.slowest is None else figure([one.slowest]),
                "stormed": figure([one.stormed]),
            },
        )
        for name, one in told.items()
    ]
    return Table("By promise, and a storm", columns, arms)


def _merging(counts: Mapping[str, Count]) -> tuple[Curve, ...]:
    return tuple(
        Curve(name, tuple((float(number), seconds) for number, seconds in enumerate(one.ksm_cpu, 1)))
        for name, one in counts.items()
        if any(one.ksm_cpu)
    )


def _used(counts: Mapping[str, Count]) -> tuple[Curve, ...]:
    return tuple(
        Curve(name, tuple((float(number), used / MIB) for number, used in enumerate(one.used, 1)))
        for name, one in counts.items()
    )


BENCH = Bench("density", "Density", _ABOUT, measure)
