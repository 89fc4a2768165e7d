"""Memhog: how long the last of three guests waits for memory that the first two have freed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import filled_host, hungry_guests
from bench.figures import Verdict, figure
from bench.filled_host import SMOKE_CACHE, TRANSLATION_CACHE, Setup, Sizes
from bench.harness.bench import Bench, Say
from bench.harness.precondition import no_other_guests
from bench.harness.result import BYTES, Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.hungry_guests import Turns, third_over_first, turns
from memhint.objects.units import GIB, MIB, mib

GOAL = 1.0  # times the first guest's time, where the unmodified host swaps

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "policy": {"guest_actions": "allow"},
    "DEFAULT": {"period": 2},
    "guest": {"interval": 10, "max_age": 60},  # as shipped: asking costs emulated guests more than the rest of it
    "ladder": {"rungs": "reporting,cache,order", "climb": 2},
}
NOTHING = Setup("unmodified, no reporting", "6.12-plain", reporting=False)
STOCK = Setup("stock reporting, order 9", "6.12-plain")
BITMAP = Setup("bitmap hinting engine", "6.12-bitmap")
MEMHINT = Setup("memhint", "6.12-memhint", agent="memhint", memhint=SETTINGS)
_PUBLISHED = {
    NOTHING.name: "40, 65 and 398 s; 3.6 GB in swap",
    STOCK.name: "bubble hinting v1: 32, 58 and 35 s; 0",
    BITMAP.name: "page hinting: 42, 47 and 32 s; 0",
}

_ABOUT = """
Three guests of 6/15 of the host's memory each, so 1.2 times the host together. In turn, without a pause, each takes all
the memory that it can get, writes to it and frees it. The test is that of the page hinting series of 2019 (`memhog 6G`
in three guests of 6 GB on 15 GB, KVM; `--scale seed` has its sizes). Each run has a host and guests of its own, and the
arms take turns.
"""


def sizes_of(scale: Scale) -> tuple[Sizes, int]:
    """Bytes of a scale, and how often each arm runs."""
    budget, runs = {
        Scale.SMOKE: (640 * MIB, 1),
        Scale.SHORT: (1280 * MIB, 3),
        Scale.FULL: (3 * GIB, 7),
        Scale.SEED: (15 * GIB, 3),
    }[scale]
    guest = budget * 6 // 15 // (4 * MIB) * 4 * MIB
    # Each takes what it can get; this much is sure, and what the budget is tried with.
    smoke = scale is Scale.SMOKE
    work, cache = (64 * MIB, SMOKE_CACHE) if smoke else (guest // 2, TRANSLATION_CACHE)
    return Sizes(budget, guest, work, budget, most=hungry_guests.GUESTS, translation_cache=cache), runs


def measure(scale: Scale, say: Say) -> Result:
    """Some minutes for each round of the arms."""
    no_other_guests()
    sizes, count = sizes_of(scale)
    setups = (NOTHING, MEMHINT) if scale is Scale.SMOKE else (NOTHING, STOCK, BITMAP, MEMHINT)
    runs: dict[str, list[Turns]] = {one.name: [] for one in setups}
    for number in range(count):
        for setup in setups:
            found = turns(setup, sizes)
            runs[setup.name].append(found)
            words = ", ".join(f"{one:.1f}" for one in found.seconds)
            say(f"{number + 1}/{count} {setup.name}: {words} s, {mib(found.swapped)} MiB in swap")
    return Result(
        "memhog",
        scale,
        _environment(sizes),
        (_table(runs),),
        targets(runs),
        (Plot("The third guest's time over the first's", "times", column="ratio"),),
        notes(runs),
    )


def targets(runs: Mapping[str, Sequence[Turns]]) -> tuple[Verdict, ...]:
    """What was hoped for."""
    mine = runs[MEMHINT.name]
    return (
        Verdict("memhint: time of the third guest over the first's", GOAL, None, third_over_first(mine)),
        Verdict("memhint: MiB in swap at the end", 1.0, None, max(one.swapped for one in mine) / MIB),
    )


def notes(runs: Mapping[str, Sequence[Turns]]) -> tuple[str, ...]:
    """What the figures do not say by themselves."""
    found = ["Guests are emulated: filling memory takes the processor's time, and swapping adds the disk's."]
    if not any(one.swapped for one in runs[NOTHING.name]):
        found.append("The unmodified host did not swap: nothing was short, and the ratios say nothing.")
    mine = [one.ratio for one in runs[MEMHINT.name]]
    if third_over_first(runs[MEMHINT.name]) > GOAL and min(mine) <= GOAL:
        found.append("memhint's ratio lies within the spread of its runs around 1: its third guest waits for nothing.")
    return tuple(found)


def _environment(sizes: Sizes) -> dict[str, Any]:
    return {**filled_host.environment(sizes), "memhint": {name: dict(group) for name, group in SETTINGS.items()}}


def _table(runs: Mapping[str, Sequence[Turns]]) -> Table:
    columns = (
        Column("first", "first guest", "s"),
        Column("second", "second", "s"),
        Column("third", "third", "s"),
        Column("ratio", "third over first", "", 2),
        Column("swapped", "swap at the end", BYTES, 0),
    )
    arms = [
        Arm(
            name,
            {
                **{
                    key: figure([one.seconds[at] for one in found])
                    for at, key in enumerate(("first", "second", "third"))
                },
                "ratio": figure([one.ratio for one in found]),
                "swapped": figure([one.swapped for one in found]),
            },
            _PUBLISHED.get(name, ""),
        )
        for name, found in runs.items()
    ]
    return Table("Time of each guest in turn", columns, arms, "Test 2 of the series of 2019")


BENCH = Bench("memhog", "Memhog", _ABOUT, measure)
