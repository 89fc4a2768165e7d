"""One fleet under several policies, each in a process of its own where there are CPUs for it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.pool import Pool

from memhint.planner.settings import PlannerSettings
from memhint.sim.engine import SimulationResult, Strategy, simulate
from memhint.sim.fleet import Fleet
from memhint.sim.needed import needed
from memhint.sim.policy import Policy

_Job = tuple[Fleet, Sequence[Policy], PlannerSettings, Strategy, bool, bool]

_EVERY = 64  # steps between two words of progress
_LOOK = 0.2  # seconds between two looks at them


def compare(
    fleet: Fleet,
    policies: Sequence[Policy],
    settings: PlannerSettings,
    *,
    strategy: Strategy = Strategy.MOST_HEADROOM,
    groups: bool = False,
    processes: int | None = None,
    fewest: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> list[SimulationResult]:
    """Each policy's outcome, in the order of ``policies``.

    :param fewest: each on the fewest hosts that it needs, instead of on the fleet's
    :param processes: at most so many; if None, as many as this process may use CPUs
    :param progress: called from time to time with the share that is done, 0 to 1
    """
    count = min(len(policies), processes or len(os.sched_getaffinity(0)))
    job = (fleet, policies, settings, strategy, groups, fewest)
    total = fleet.steps * len(policies)
    if count < 2:
        done = [0] * len(policies)

        def tell(index: int, step: int) -> None:
            done[index] = step
            progress(sum(done) / total)

        return [_one(job, index, tell) for index in range(len(policies))]
    # A fork shares the fleet: what describes it is never copied.
    context = multiprocessing.get_context("fork")
    steps = context.Array("q", len(policies), lock=False)
    with context.Pool(count, _start, (job, steps)) as pool:
        return _wait(pool, len(policies), lambda: progress(sum(steps) / total))


def _wait(pool: Pool, count: int, look: Callable[[], None]) -> list[SimulationResult]:
    # The last policies of the usual list remember most and take longest: they begin first.
    results = {index: pool.apply_async(_work, (index,)) for index in reversed(range(count))}
    found = []
    for index in range(count):
        while not results[index].ready():
            results[index].wait(_LOOK)
            look()
        found.append(results[index].get())
    return found


_JOB: _Job
_STEPS: object


def _start(job: _Job, steps: object) -> None:
    global _JOB, _STEPS
    _JOB, _STEPS = job, steps


def _work(index: int) -> SimulationResult:
    def tell(which: int, step: int) -> None:
        _STEPS[which] = step  # type: ignore[index]

    return _one(_JOB, index, tell)


def _one(
    job: _Job,
    index: int,
    tell: Callable[[int, int], None],
) -> SimulationResult:
    fleet, policies, settings, strategy, groups, fewest = job
    run = needed if fewest else simulate

    def progress(step: int) -> None:
        if fewest or step % _EVERY == 0:
            tell(index, step)

    outcome = run(fleet, policies[index], settings, strategy=strategy, groups=groups, progress=progress)
    tell(index, fleet.steps)
    return outcome
