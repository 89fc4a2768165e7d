"""How fast what a guest freed leaves its QEMU: page reporting in its ways, a balloon, and virtio-mem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.counted_guest import QEMU, GuestFailed, kernel, qemu_version
from bench.drained_guest import (
    BALLOON,
    FAST,
    METHODS,
    PRESSED,
    SLOW,
    STOCK,
    UNPLUGGED,
    Drain,
    Method,
    curve,
    drain,
    guests,
    middle,
    ratio,
)
from bench.figures import Figure, Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import PreconditionFailed, no_other_guests
from bench.harness.result import Arm, Column, Curve, Plot, Result, Table
from bench.harness.scale import Scale
from lab.kernel_guest import GuestError, accelerator

PRESSED_AT_MOST = 0.1  # times stock reporting's time to 90 %
FASTER_AT_LEAST = 5.0  # times, a delay of 200 ms against 2000 ms
SMOKE = (STOCK, PRESSED, BALLOON)

Drains = dict[int, dict[str, list[Drain]]]
"""By MiB, by way, one element per round."""

_ABOUT = """
A guest of 2 GiB with two CPUs uses an amount of memory and gives it up; how long until half of it, and 90 %, has left
QEMU's resident memory. Each way runs once per round, so what else the machine does comes to all alike.

- `stock reporting`: a kernel without patches. The clock starts when the guest frees, here and in the next four.
- `free lists`: the patched kernel with the stock delay of 2000 ms, and with 200 ms.
- `memhint under pressure`: the delay is 2000 ms until the guest has freed; then it is set to 200 ms and what is free is
  flushed, the two things that memhint's ladder asks of the guest agent. Here they are written through the guest's
  serial line: the time until the agent notices pressure, and the guest agent's own, are not in it.
- `bitmap`: the other engine, which does not wait for a delay.
- `balloon inflated`, `virtio-mem unplugged`: the memory was freed before, reporting is off, and the clock starts when
  QEMU is told to take the amount. These take memory away from the guest, which has to be given back later; reporting
  leaves it free to be used again.
"""


def measure(scale: Scale, say: Say) -> Result:
    """Ten minutes at `SHORT`; twice that beside other work."""
    smoke = scale is Scale.SMOKE
    if not smoke:
        no_other_guests()
    ways = SMOKE if smoke else METHODS
    sizes = (256,) if smoke else (256, 512, 1280)
    rounds = {Scale.SMOKE: 1, Scale.SHORT: 3}.get(scale, 12)
    drains: Drains = {mib: {way.name: [] for way in ways} for mib in sizes}
    try:
        kernels = {series: kernel(series) for series in dict.fromkeys(way.series for way in ways)}
        with guests(kernels, ways) as found:
            for number in range(rounds):
                for mib in sizes:
                    say(f"draining {mib} MiB, round {number + 1} of {rounds}")
                    for way in ways:
                        drains[mib][way.name].append(drain(way, found[way.guest], mib))
    except (GuestFailed, GuestError) as error:
        raise PreconditionFailed(f"a guest did not do what it was told: {error}") from None
    return told(scale, ways, drains, _environment(rounds))


def _environment(rounds: int) -> dict[str, object]:
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "huge_pages_of_the_host": huge.read_text().strip() if huge.exists() else "none",
        "qemu": f"{qemu_version(QEMU)[1]}, {accelerator()}",
        "rounds": rounds,
    }


def told(scale: Scale, ways: Sequence[Method], drains: Drains, around: dict[str, object]) -> Result:
    """The result of the drains."""
    targets = []
    for mib, found in drains.items():
        pressed = found[PRESSED.name]
        for other, at_most in ((STOCK, PRESSED_AT_MOST), (BALLOON, 1.0)):
            what = f"{mib} MiB: time to 90 % under pressure, times that of {other.name}"
            targets.append(Verdict(what, at_most, None, ratio(pressed, found[other.name])))
    most = drains[max(drains)]
    if SLOW.name in most and FAST.name in most:
        what = f"{max(drains)} MiB: time to 90 % at 2000 ms, times that at 200 ms"
        targets.append(Verdict(what, None, FASTER_AT_LEAST, ratio(most[SLOW.name], most[FAST.name])))
    return Result(
        "drain",
        scale,
        around,
        [_table(mib, ways, found) for mib, found in drains.items()],
        targets,
        [_plot(mib, ways, found) for mib, found in reversed(drains.items())],
        _notes(drains),
    )


def _table(mib: int, ways: Sequence[Method], found: dict[str, list[Drain]]) -> Table:
    columns = (
        Column("half", "to 50 %", "s", 2),
        Column("most", "to 90 %", "s", 2),
        Column("rate", "until then", "MiB/s", 0),
        Column("times", "time to 90 %, times stock reporting", "", 3),
    )
    arms = []
    for way in ways:
        runs = found[way.name]
        figures: dict[str, Figure | None] = {
            "half": _all([one.seconds(0.5) for one in runs]),
            "most": _all([one.seconds(0.9) for one in runs]),
            "rate": _all([0.9 * mib / at if (at := one.seconds(0.9)) else None for one in runs]),
            "times": figure([ratio(runs, found[STOCK.name])]),
        }
        arms.append(Arm(way.name, figures))
    return Table(f"{mib} MiB", columns, arms)


def _all(values: Sequence[float | None]) -> Figure | None:
    """None if one did not come so far."""
    there = [one for one in values if one is not None]
    return figure(there) if len(there) == len(values) else None


def _plot(mib: int, ways: Sequence[Method], found: dict[str, list[Drain]]) -> Plot:
    curves = [Curve(way.name, curve(middle(found[way.name]))) for way in ways]
    return Plot(f"{mib} MiB that a guest gave up", "MiB that left QEMU", "s", curves)


def _notes(drains: Drains) -> list[str]:
    notes = [
        "A pass of reporting comes each delay and takes at most 256 MiB of a guest as small as this one, so the time "
        "grows with the amount where only the delay starts passes.",
        "The balloon takes 4 KiB at a time, so its time grows with the amount; virtio-mem takes 2 MiB or more.",
        "The guests are emulated. With KVM the guest's own part (freeing, inflating, offlining) is shorter, the delays "
        "are not.",
    ]
    for mib, found in drains.items():
        for name, runs in found.items():
            if short := sum(one.seconds(0.9) is None for one in runs):
                notes.append(f"{mib} MiB, {name}: {short} of {len(runs)} rounds never came to 90 %.")
        if UNPLUGGED.name in found and (times := ratio(found[PRESSED.name], found[UNPLUGGED.name])) > 1:
            notes.append(f"At {mib} MiB unplugging is faster: {PRESSED.name} takes {times:.2f} times as long.")
    return notes


BENCH = Bench("drain", "How fast freed memory leaves", _ABOUT, measure)
