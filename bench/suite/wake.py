"""How soon a dense idle VM has its huge pages again once it works."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench import filled_host
from bench.cpu import cpu_seconds
from bench.figures import Figure, Verdict, figure
from bench.filled_host import SMOKE_CACHE, TRANSLATION_CACHE, Setup, Sizes, agent_of, host_of, settle
from bench.harness.bench import Bench, Say
from bench.harness.precondition import no_other_guests, require
from bench.harness.result import Arm, Column, Curve, Plot, Result, Table
from bench.harness.scale import Scale
from bench.suite.density import PACKED
from lab import Guest, wait_for
from lab.agent import AgentProcess
from memhint.conf import thp
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import deep_memory
from memhint.kernel.thp import read_thp
from memhint.objects.units import GIB, MIB, mib

SHARE = 0.9  # of the huge pages that it had
GOAL = 60.0  # seconds until it has them again
LASTS = 75.0  # seconds for which it is looked at; one that never had them counts with these
_SPLIT = 120.0  # seconds that finer reporting gets to split half of its huge pages
_CPU = next(float(one.default) for one in thp.OPTS if one.name == "cpu_percent")

# As density's hosts, but for the period, which is the one that is shipped, and merging: a VM of which pages are merged
# is not collapsed.
_DENSE: Mapping[str, Mapping[str, Any]] = {
    "DEFAULT": {"period": 10},
    **{name: group for name, group in PACKED.items() if name not in ("DEFAULT", "virt", "dedup")},
    "guest": {"interval": 5, "max_age": 180},
}


def _setup(name: str, word: str) -> Setup:
    policy = {"guest_actions": "allow", "thp": word}
    return Setup(name, "6.12-memhint", agent="memhint", memhint={**_DENSE, "policy": policy})


MEMHINT = _setup("memhint, as shipped", "auto")
WITHOUT = _setup("thp=off: khugepaged alone", "off")


@dataclass(frozen=True, slots=True)
class Shape:
    """Bytes of a guest and of what it works with, and how often all of it is done."""

    guest: int
    work: int
    rounds: int
    lasts: float = LASTS
    """Seconds for which it is looked at after it woke."""
    patience: float = LASTS
    """Seconds for which it is looked at on, where memhint has not given it its huge pages back by then."""
    rest: float = 15.0
    """Seconds before it wakes, in which the agent's usual work is measured."""
    quiet: float = 8.0
    """Seconds in which a settled host's usage does not fall any more."""
    translation_cache: int = TRANSLATION_CACHE


SHAPES = {
    # Until it has them: beside other tests that takes a while.
    Scale.SMOKE: Shape(
        448 * MIB,
        160 * MIB,
        1,
        lasts=15.0,
        patience=300.0,
        rest=3.0,
        quiet=2.0,
        translation_cache=SMOKE_CACHE,
    ),
    Scale.SHORT: Shape(1 * GIB, 640 * MIB, 1),
    Scale.FULL: Shape(2 * GIB, 1536 * MIB, 3),
}


@dataclass(slots=True)
class Woken:
    """One wake. Bytes in huge pages, and the agent's seconds of CPU; times are since it began to work."""

    had: int  # before it became idle
    dense: int = 0  # when it woke
    seen: list[tuple[float, int]] = field(default_factory=list)
    usual: float = 0.0  # the agent's, of a second while the VM rested
    cpu: list[tuple[float, float]] = field(default_factory=list)

    def share_at(self, seconds: float) -> float:
        """Of what it had, at the last look until then."""
        return max((huge for at, huge in self.seen if at <= seconds), default=self.dense) / self.had

    @property
    def again(self) -> float | None:
        """Seconds until it had `SHARE` of them again; None where it never did."""
        return next((at for at, huge in self.seen if huge >= SHARE * self.had), None)

    @property
    def took(self) -> float:
        """The agent's seconds of CPU until then, without its usual work; all of them where it never had."""
        at, cpu = self.cpu[-1]
        if self.again is not None:
            at, cpu = next(one for one in self.cpu if one[0] >= self.again)
        return cpu - self.usual * at


_ABOUT = f"""
A guest works with most of its memory, which is in huge pages. Then it keeps every other page of that and lies idle. The
host is set as that of [density](#density) is, so finer reporting gives it the single pages that are free, and splits
nearly every huge page. Then the guest works with all of it again, half of which comes in small pages at first: it
writes to all of it, again and again. What counts is how much of what was in huge pages before is so again, and what
CPU the agent took for it, over what it took while the guest was idle. As shipped are the period, 10 s, and
`[thp] cpu_percent`, {_CPU:g}. Merging is off: a VM of which pages are merged is not collapsed.
"""


def measure(scale: Scale, say: Say) -> Result:
    """The arms take turns, three minutes each."""
    no_other_guests()
    require(read_thp(KernelRoot()).enabled != "never", "transparent huge pages are off on this machine")
    shape = SHAPES.get(scale, SHAPES[Scale.FULL])
    sizes = Sizes(
        2 * shape.guest,
        shape.guest,
        shape.work,
        2 * shape.guest,
        1,
        quiet=shape.quiet,
        translation_cache=shape.translation_cache,
    )
    found: dict[str, list[Woken]] = {WITHOUT.name: [], MEMHINT.name: []}
    for turn in range(shape.rounds):
        for setup in (WITHOUT, MEMHINT) if turn % 2 == 0 else (MEMHINT, WITHOUT):
            one = _wake(setup, sizes, shape)
            again = "never" if one.again is None else f"after {one.again:.0f} s"
            say(f"{setup.name}: {mib(one.had)} MiB, {mib(one.dense)} when it woke; {SHARE:.0%} of them {again}")
            found[setup.name].append(one)
    return Result(
        "wake",
        scale,
        {
            **filled_host.environment(sizes),
            "worked_with_mib": mib(shape.work),
            "rounds": shape.rounds,
            "memhint": {name: dict(group) for name, group in (MEMHINT.memhint or {}).items()},
        },
        (_table(found),),
        targets(found),
        (
            Plot(
                "Of what was in huge pages before, again",
                "%",
                x="seconds since it works again",
                curves=[
                    Curve(name, [(at, 100 * huge / runs[0].had) for at, huge in [(0.0, runs[0].dense), *runs[0].seen]])
                    for name, runs in found.items()
                ],
            ),
        ),
        (
            "The picture is of the first round.",
            "Guests are emulated: what they do takes the processor from the agent, too.",
        ),
    )


def _wake(setup: Setup, sizes: Sizes, shape: Shape) -> Woken:
    with host_of(setup, sizes) as host, agent_of(host, setup) as agent:
        assert agent is not None
        guest = host.add_guest("dense")
        guest.alloc("work", sizes.work)
        found = Woken(huge(guest))
        require(found.had >= SHARE * sizes.work, f"only {mib(found.had)} MiB came in huge pages: none are free here")
        guest.free("work")
        guest.fragment("kept", sizes.work)
        wait_for(
            lambda: huge(guest) < found.had // 2,
            _SPLIT,
            "its huge pages to be split",
            seen=lambda: f"{mib(huge(guest))} of {mib(found.had)} MiB are left",
        )
        settle(host, sizes, thorough=False)
        began = _seconds(agent)
        time.sleep(shape.rest)
        found.usual = (_seconds(agent) - began) / shape.rest
        found.dense = huge(guest)
        _work(guest, agent, found, shape.lasts, shape.patience if setup is MEMHINT else shape.lasts)
        return found


def _work(guest: Guest, agent: AgentProcess, found: Woken, lasts: float, patience: float) -> None:
    """With all of it: what was free is had again, in small pages."""
    began, cpu = time.monotonic(), _seconds(agent)
    while (at := time.monotonic() - began) < lasts or (found.again is None and at < patience):
        found.seen.append((at, huge(guest)))
        found.cpu.append((at, _seconds(agent) - cpu))
        guest.touch("kept")


def _seconds(agent: AgentProcess) -> float:
    assert agent.process is not None
    return cpu_seconds(agent.process.pid)


def huge(guest: Guest) -> int:
    """Bytes of its QEMU's memory in huge pages."""
    return deep_memory(KernelRoot(), guest.pid(), 0.0).anon_huge


def targets(found: Mapping[str, Sequence[Woken]]) -> tuple[Verdict, ...]:
    """The slowest round of memhint; one that never had them counts with all the time that it was looked at."""
    slowest = max(LASTS if one.again is None else one.again for one in found[MEMHINT.name])
    return (
        Verdict(f"seconds until {SHARE:.0%} of what was in huge pages is so again, the slowest", GOAL, None, slowest),
    )


def _table(found: Mapping[str, Sequence[Woken]]) -> Table:
    times = (10, 20, 30, 60)
    columns = (
        Column("had", "in huge pages before", "bytes", 0),
        Column("dense", "when it woke", "%", 0),
        *(Column(f"at{at}", f"{at} s later", "%", 0) for at in times),
        Column("again", f"{SHARE:.0%} after", "s", 0),
        Column("cpu", "CPU of the agent until then", "s", 2),
        Column("core", "of a core", "%", 1),
    )

    def row(runs: Sequence[Woken]) -> dict[str, Figure | None]:
        again = [one.again for one in runs if one.again is not None]
        return {
            "had": figure([one.had for one in runs]),
            "dense": figure([100 * one.dense / one.had for one in runs]),
            **{f"at{at}": figure([100 * one.share_at(at) for one in runs]) for at in times},
            "again": figure(again) if len(again) == len(runs) else None,
            "cpu": figure([one.took for one in runs]),
            "core": figure([100 * one.took / (one.cpu[-1][0] if one.again is None else one.again) for one in runs]),
        }

    return Table("A dense idle guest works again", columns, [Arm(name, row(runs)) for name, runs in found.items()])


BENCH = Bench("wake", "After a wake", _ABOUT, measure)
