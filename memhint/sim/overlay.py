"""The courses of a trace for VMs that come and go as published: a trace of a month has few that do.

Each VM draws one of the trace's VMs: its memory, and what it used at the same hours of the same days. So what happened
to many VMs at once does so here. VMs that draw the same one move together, which is harder on a host than the trace is.
"""

from __future__ import annotations

import math

import numpy as np

from memhint.sim import published
from memhint.sim.fleet import Fleet, HostShape
from memhint.sim.generate import lives
from memhint.sim.trace import UsageSeries, check_size, levels_of


def overlay(
    courses: dict[str, UsageSeries],
    *,
    name: str,
    hosts: int,
    step: float,
    seed: int,
    days: float | None = None,
    shape: HostShape | None = None,
    offered: float = published.OFFERED,
) -> Fleet:
    """A fleet of VMs with published lifetimes, each of which uses what a VM of the trace used at that time.

    VMs of the trace larger than a host are left out: they could not be placed.

    :param days: if None, as long as the trace
    :raises ValueError: when it would need too much memory, or is longer than the trace
    """
    shape = shape or HostShape()
    begin = min(course.times[0] for course in courses.values())
    end = max(course.times[-1] for course in courses.values())
    whole = math.floor((end - begin) / step) + 1
    steps = whole if days is None else round(days * 86400.0 / step)
    if not 1 <= steps <= whole:
        raise ValueError(f"the trace has {whole * step / 86400.0:.1f} days")
    check_size(whole, len(courses))
    kept = {vm: course for vm, course in courses.items() if course.memory < shape.pool}
    if not kept:
        raise ValueError("every VM of the trace is larger than a host")
    levels, first, _ = levels_of(kept, begin, step, whole)
    sizes = np.array([float(math.floor(course.memory)) for course in kept.values()])
    rng = np.random.default_rng(seed)
    arrival, departure = lives(round(offered * hosts * shape.pool / sizes.mean()), steps, step, rng)
    row = rng.integers(0, len(kept), len(arrival))
    # A VM is drawn only once the trace has it, and the trace has some from the beginning.
    early = np.flatnonzero(first[row] > arrival)
    row[early] = rng.choice(np.flatnonzero(first == 0), early.size)
    return Fleet(
        name=name,
        shape=shape,
        hosts=hosts,
        step=step,
        steps=steps,
        arrival=arrival,
        departure=departure,
        memory=sizes[row],
        offset=np.zeros(len(row)),
        scale=np.ones(len(row)),
        row=row,
        levels=levels[:steps],
        warm_up=min(steps - 1, math.ceil(published.FILL / step)),
    )
