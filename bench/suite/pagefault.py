"""What free page reporting adds to page faults: guest instructions, exactly, and the host's faults and time apart."""

from __future__ import annotations

from collections.abc import Sequence

from bench.counted_guest import GuestFailed, has_series, kernel, workshop
from bench.figures import PAGE, Figure, Verdict, Window, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import PreconditionFailed, no_other_guests
from bench.harness.result import BYTES, Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.instructions import (
    BASE,
    BITMAP,
    DISABLED,
    ENABLED,
    KEPT,
    PAUSED,
    WAYS,
    Counted,
    Variant,
    against,
    count,
    dearest,
    environment,
    host_costs,
    per_operation,
    reported,
    where,
)
from memhint.objects.units import MIB

DISABLED_AT_MOST = 0.1  # percent of the instructions of the unmodified kernel
ENABLED_AT_MOST = 1.0
# What several tasks show beyond a tenth of a percent may be chance: where blocks lie, and when the worker comes.
TARGETS = (
    (DISABLED, DISABLED_AT_MOST, ("1",), "1 task"),
    (PAUSED, DISABLED_AT_MOST, ("1",), "1 task"),
    (KEPT, ENABLED_AT_MOST, ("1", "2p", "4p", "2t", "4t"), "the dearest of all tasks"),
    (ENABLED, ENABLED_AT_MOST, ("1", "2p", "4p", "2t", "4t"), "the dearest of all tasks"),
)
"""Variant, percent, by which tasks, and how that is called."""
TASKS = {"1": "1 task", "2p": "2 processes", "4p": "4 processes", "2t": "2 threads", "4t": "4 threads"}
KINDS = {"base": "4 KiB pages", "thp": "transparent huge pages"}
SMOKE = (BASE, DISABLED, KEPT, ENABLED)

_PER_SECOND = "published, faults per second (page hinting RFC v10, 2019: 1, 2, 4 processes)"
_THP = "published, time (unused page reporting v6, 2019: huge pages, 16 CPUs)"
_PUBLISHED = {
    "base": {
        BASE: "459168, 956272, 1755744",
        ENABLED: "-36, -43, -41 % (bubble hinting v1, from which it came)",
        BITMAP: "+1.9, +1.2, +0.6 % (page hinting)",
    },
    "thp": {DISABLED: "-0.08 %", KEPT: "-0.86 %", ENABLED: "-3.27 %"},
}

_ABOUT = """
As page_fault1 of will-it-scale does, 1, 2 and 4 tasks map 128 MiB each, touch each page and unmap, in a guest whose
instructions a plugin of QEMU counts one by one. All that the guest executes counts: the reporting worker, interrupts,
idling. A repeated string instruction, such as the one that clears a page, counts once. The guest has one CPU, because
counting needs a clock that follows the instructions: the tasks take turns on it, as processes or as threads of one, and
never wait for each other's locks as they would on several CPUs. They hand over to each other after 1 MiB, or 32 MiB of
huge pages, about what a scheduler gives them time for. Figures that have no row `unmodified, begun differently` are of
tasks that the scheduler let take turns: two runs of one kernel then differ by chance, by up to 0.3 % on 6.12 and by
percents on 7.3.

`unmodified` is the same kernel without patches and a balloon without reporting. `the host discards nothing` locks
QEMU's memory, as a device that is assigned to the guest does: reports are answered, nothing is given back, and QEMU's
resident memory, which is looked at, does not fall. The guest executes the same instructions then, to the last one; what
the published figures of time lose between -0.86 and -3.27 % is spent by the host, to clear and map again what it had
dropped. Therefore what the host spends is in a table of its own, and neither is compared with the published times.
"""


def measure(scale: Scale, say: Say) -> Result:
    """Ten minutes on two cores at `SHORT`. Counts do not depend on what else the machine does."""
    if scale is not Scale.SMOKE:
        no_other_guests()
    smoke = scale is Scale.SMOKE
    ways = SMOKE if smoke else tuple(way for way in WAYS if has_series(way.series))
    runs = {Scale.SMOKE: 1, Scale.SHORT: 2}.get(scale, 9)
    try:
        kernels = {series: kernel(series) for series in dict.fromkeys(way.series for way in ways)}
        with workshop("pagefault") as works:
            counted = count(works, kernels, ways, runs, "tasks=1" if smoke else "tasks=4", say)
    except GuestFailed as error:
        raise PreconditionFailed(str(error)) from None
    return told(scale, ways, counted, environment(kernels, runs))


def told(scale: Scale, ways: Sequence[Variant], counted: Counted, around: dict[str, object]) -> Result:
    """The result of what was counted."""
    found = next(iter(counted[BASE.name]))
    windows = {
        f"{kind}-{tasks}": f"{pages}, {title}"
        for kind, pages in KINDS.items()
        for tasks, title in TASKS.items()
        if f"{kind}-{tasks}" in found
    }
    targets = [
        Verdict(
            f"{way.name}, {pages}, {title}: percent of guest instructions more than {way.against}",
            at_most,
            None,
            dearest(counted, way, [f"{kind}-{one}" for one in tasks if f"{kind}-{one}" in windows]),
        )
        for way, at_most, tasks, title in TARGETS
        if way in ways
        for kind, pages in KINDS.items()
    ]
    missed = [way for way in ways if any(not one.met and one.what.startswith(f"{way.name},") for one in targets)]
    return Result(
        "pagefault",
        scale,
        around,
        (
            *(_guest(kind, ways, counted, [one for one in TASKS if f"{kind}-{one}" in windows]) for kind in KINDS),
            _host(ways, counted),
        ),
        targets,
        (
            Plot("Guest instructions, huge pages, 1 task, more than unmodified", "%", table=1, column="1"),
            Plot("Guest instructions, 4 KiB pages, 1 task, more than unmodified", "%", table=0, column="1"),
        ),
        (*_NOTES, *(where(counted, way, windows) for way in missed)),
    )


def _guest(kind: str, ways: Sequence[Variant], counted: Counted, tasks: Sequence[str]) -> Table:
    columns = [Column("per_page", "instructions per page, 1 task", "", 0)]
    columns += [Column(one, f"more, {TASKS[one]}", "%", 2) for one in tasks]
    if kind == "thp":
        columns.append(Column("per_block", "more per 2 MiB reported", "", 0))
    arms = []
    for way in ways:
        figures: dict[str, Figure | None] = {"per_page": figure(per_operation(counted, way, f"{kind}-1"))}
        for one in tasks:
            figures[one] = None if way is BASE else against(counted, way, BASE.name, f"{kind}-{one}")
        if kind == "thp":
            figures["per_block"] = _per_block(counted, way, [f"thp-{one}" for one in tasks])
        arms.append(Arm(way.name, figures, _PUBLISHED[kind].get(way, "")))
    title = f"Guest instructions, {KINDS[kind]}"
    return Table(title, columns, arms, _PER_SECOND if kind == "base" else _THP)


def _per_block(counted: Counted, way: Variant, windows: Sequence[str]) -> Figure | None:
    found = []
    for run, base in zip(counted[way.name], counted[BASE.name], strict=True):
        blocks = sum(run[one].pages for one in windows) * PAGE / (2 * MIB)
        if not blocks:
            return None
        found.append(sum(run[one].instructions - base[one].instructions for one in windows) / blocks)
    return figure(found)


def _host(ways: Sequence[Variant], counted: Counted) -> Table:
    columns = (
        Column("reported", "reported", BYTES, 0),
        Column("batches", "batches", "", 0),
        Column("resident", "QEMU's memory when the first window opens", BYTES, 0),
        Column("faults", "QEMU's faults", "", 0),
        Column("per_fault", "system time per fault", "µs", 0),
        Column("faults_gib", "faults per GiB reported", "", 0),
        Column("system_gib", "system time per GiB reported", "ms", 0),
        Column("wall", "wall time, indicative", "s", 0),
    )
    arms = []
    for way in ways:
        runs = counted[way.name]
        costs = host_costs(counted, way) if way.returned and way.counted else None
        figures: dict[str, Figure | None] = {
            "reported": figure(reported(run) for run in runs) if way.counted else None,
            "batches": figure(sum(one.batches for one in run.values()) for run in runs) if way.counted else None,
            "resident": figure(next(iter(run.values())).resident for run in runs),
            "faults": figure(sum(one.minor_faults for one in run.values()) for run in runs),
            "per_fault": figure(map(_per_fault, runs)),
            "faults_gib": costs[0] if costs else None,
            "system_gib": costs[1] if costs else None,
            "wall": figure(sum(one.wall_us for one in run.values()) / 1e6 for run in runs),
        }
        arms.append(Arm(way.name, figures))
    shown = [one for one in columns if any(arm.figures[one.key] is not None for arm in arms)]
    return Table("Host cost, all windows together", shown, arms)


def _per_fault(run: dict[str, Window]) -> float:
    return sum(one.system_us for one in run.values()) / max(1, sum(one.minor_faults for one in run.values()))


_NOTES = (
    "Most of what reporting costs with 4 KiB pages is the kernel's own check for reported pages, 8 instructions on each"
    " page that passes the free lists; an unmodified kernel that reports has it. `paused` keeps it, and is held to "
    "that one; with `enabled=0` at boot the check is off.",
    "The worker's cost is nine tenths `__move_freepages_block()`: the kernel looks at all pages of a block when it "
    "isolates it. The bitmap reports nearly every block that is freed, at once, and so pays for each; the free lists "
    "pay once per delay.",
    "The guest's clock runs at 250 million instructions a second, a tenth of what processors have or less, so passes "
    "come ten times as often per instruction as there: the worker's part is overstated.",
    "A CPU's own lists of free pages have a fixed length here (`percpu_pagelist_high_fraction`). Left to the kernel's "
    "tuning, most pages never reach the lists where blocks form, and two runs of one kernel differ by up to 2 %.",
    "What `unmodified, begun differently` has more or less than `unmodified` is chance: the same kernel, with other "
    "memory in use. What is held to a tenth of a percent is held to it with one task.",
    "A delay of 200 ms is what memhint sets for idle guests of a host under pressure. These are not idle: they do "
    "nothing but take and free memory.",
    "The patches that brought free page reporting to Linux gave -0.57 to +0.17 % of time as its cost on page_fault1.",
    "Faults are QEMU's, and depend on whether the host backs the guest with huge pages: 512 per GiB if it always can. "
    "System time is that of the whole emulator, beside whatever else the machine did.",
)

BENCH = Bench("pagefault", "Page faults in a guest that reports", _ABOUT, measure, exact=True)
