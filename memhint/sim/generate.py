"""Fleets made of published distributions (diurnal, bursty, storm, the seed's workload), and of what forecasts miss.

Everything random comes from one seed, and from `published` what it is drawn from. The same seed gives the same fleet.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum

import numpy as np

from memhint.sim import hard_courses, published
from memhint.sim.fleet import Bools, Fleet, Floats, HostShape, Ints

ROWS = 1024  # courses of use to draw from; VMs that draw the same one differ in size, peak and swing
DAY = 86400.0
HOUR = 3600.0


class Workload(StrEnum):
    """What can be generated."""

    DIURNAL = "diurnal"
    BURSTY = "bursty"
    STORM = "storm"
    OFFICE = "office"
    CRON = "cron"
    HOT = "hot"
    LEAK = "leak"
    FLASH = "flash"
    ANTIPHASE = "antiphase"
    TAILS = "tails"
    SEED = "seed"


def generate(
    kind: Workload,
    *,
    hosts: int,
    days: float,
    step: float,
    seed: int,
    shape: HostShape | None = None,
    offered: float = published.OFFERED,
    arm: str = "returned",
) -> Fleet:
    """A fleet of ``hosts`` hosts over ``days`` days in steps of ``step`` seconds.

    ``offered`` is how much memory all VMs that would be there at once have, in multiples of what the hosts have. Of
    the seed's workload each host is offered the VMs of that ``arm`` instead.
    """
    shape = shape or HostShape()
    steps = max(1, round(days * DAY / step))
    rng = np.random.default_rng(seed)
    if kind is Workload.SEED:
        return seed_workload(arm, hosts=hosts, steps=steps, step=step, rng=rng, shape=shape)
    mean_size = sum(size * weight for size, weight in published.SIZES)
    arrival, departure = lives(round(offered * hosts * shape.pool / mean_size), steps, step, rng)
    count = len(arrival)
    memory = sizes(count, rng)
    peak = memory * np.maximum(published.PEAK_LEAST, rng.beta(*published.PEAK_BETA, count))
    if kind is Workload.BURSTY:
        swing = np.full(count, published.BURST_SWING)
        levels = _bursts(steps, step, rng)
    elif kind is Workload.OFFICE:
        swing = np.full(count, published.OFFICE_SWING)
        levels = _office(steps, step, rng)
    elif kind is Workload.CRON:
        swing = np.full(count, published.CRON_SWING)
        levels = _cron(steps, step, rng)
    elif kind is Workload.HOT:
        peak = memory * rng.uniform(*published.HOT_PEAK, count)
        swing = 1.0 - published.HOT_COLD * memory / peak
        levels = _turns(steps, step)
    elif kind is Workload.LEAK:
        peak = memory * rng.uniform(*published.HOT_PEAK, count)
        swing = np.full(count, published.LEAK_SWING)
        levels = hard_courses.leaks(_days(steps, step, rng), step, rng)
    elif kind is Workload.FLASH:
        swing = np.full(count, published.FLASH_SWING)
        levels = hard_courses.crowds(_days(steps, step, rng), step, rng)
    elif kind is Workload.ANTIPHASE:
        swing = np.full(count, published.ANTIPHASE_SWING)
        levels = hard_courses.antiphase(steps, step, ROWS)
    elif kind is Workload.TAILS:
        peak = memory * np.ones(count)
        swing = np.full(count, published.TAIL_SWING)
        levels = hard_courses.tails(steps, step, ROWS, rng)
    else:
        swing = rng.uniform(*published.SWING, count)
        levels = _days(steps, step, rng)
    fleet = Fleet(
        name=str(kind),
        shape=shape,
        hosts=hosts,
        step=step,
        steps=steps,
        arrival=arrival,
        departure=departure,
        memory=memory,
        offset=peak * (1.0 - swing),
        scale=peak * swing,
        row=_hot_rows(arrival, steps, step, rng) if kind is Workload.HOT else rng.integers(0, ROWS, count),
        levels=levels,
        warm_up=min(steps - 1, math.ceil(published.FILL / step)),
    )
    if kind is Workload.STORM:
        stormy = rng.random(count) < published.STORM_SHARE
        return replace(fleet, stormy=stormy, storms=_storms(steps, step))
    return fleet


def sizes(count: int, rng: np.random.Generator) -> Floats:
    """Memory of ``count`` VMs in bytes."""
    values, weights = zip(*published.SIZES, strict=True)
    return rng.choice(np.array(values, dtype=np.float64), size=count, p=weights)


def lifetimes(count: int, rng: np.random.Generator) -> Floats:
    """Lifetimes of ``count`` VMs in seconds."""
    short = rng.lognormal(math.log(published.SHORT_MEDIAN), published.SHORT_SIGMA, count)
    while (beyond := short >= published.LONG_LEAST).any():
        short[beyond] = rng.lognormal(math.log(published.SHORT_MEDIAN), published.SHORT_SIGMA, int(beyond.sum()))
    long = published.LONG_LEAST + rng.exponential(published.LONG_MEAN_REST, count)
    return np.where(rng.random(count) < published.SHORT_SHARE, short, long)


def lives(present: int, steps: int, step: float, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Arrivals and departures in steps of a fleet in which ``present`` VMs would be there at once.

    Some would be there at the start, the others come later.
    """
    # Who is there at a given moment is more often one who lives long, and is somewhere within its life.
    drawn = lifetimes(8 * present, rng)
    rest = rng.choice(drawn, size=present, p=drawn / drawn.sum()) * rng.random(present)
    first = rng.uniform(0.0, min(published.FILL, steps * step), present)
    length = steps * step
    coming = rng.poisson(present * length / published.MEAN_LIFETIME)
    later = rng.uniform(0.0, length, coming)
    swing = published.ARRIVAL_SWING * np.cos(2 * math.pi * (later / HOUR - published.PEAK_HOUR) / 24.0)
    later = later[rng.random(coming) * (1.0 + published.ARRIVAL_SWING) < 1.0 + swing]
    # What thinning took away is given back, so that the mean rate stays.
    later = np.concatenate([later, rng.choice(later, coming - len(later))]) if len(later) else later
    begin = np.concatenate([first, later])
    end = begin + np.concatenate([rest, lifetimes(len(later), rng)])
    order = np.argsort(begin, kind="stable")
    arrival = np.minimum(steps - 1, np.floor(begin[order] / step)).astype(np.int64)
    departure = np.maximum(arrival + 1, np.ceil(end[order] / step).astype(np.int64))
    return arrival, departure


def _days(steps: int, step: float, rng: np.random.Generator) -> np.ndarray:
    """Courses of a day and a week with noise, around 0 by night and 1 at the busiest hour."""
    peak_hour = rng.normal(published.PEAK_HOUR, published.PEAK_HOUR_SPREAD, ROWS)
    elsewhere = rng.random(ROWS) < published.ELSEWHERE
    peak_hour[elsewhere] = rng.uniform(0.0, 24.0, int(elsewhere.sum()))
    now = np.arange(steps)[:, None] * step
    day = (1.0 + np.cos(2 * math.pi * (now / HOUR - peak_hour[None, :]) / 24.0)) / 2.0
    weekend = (now // DAY % 7) >= 5
    day *= np.where(weekend, published.WEEKEND, 1.0)
    keep = math.exp(-step / published.NOISE_TIME)
    fresh = published.NOISE * math.sqrt(1.0 - keep * keep)
    noise = rng.normal(0.0, published.NOISE, ROWS)
    for index in range(steps):
        day[index] += noise
        noise = keep * noise + rng.normal(0.0, fresh, ROWS)
    return np.clip(day, 0.0, 1.0 + 3 * published.NOISE).astype(np.float32)


def _bursts(steps: int, step: float, rng: np.random.Generator) -> np.ndarray:
    """Courses that are 0 in quiet and 1 in a burst."""
    levels = np.zeros((steps, ROWS), dtype=np.float32)
    length = steps * step
    for row in range(ROWS):
        now = rng.exponential(published.BURST_EVERY)
        while now < length:
            lasts = rng.lognormal(math.log(published.BURST_MEDIAN), published.BURST_SIGMA)
            levels[int(now / step) : max(int(now / step) + 1, math.ceil((now + lasts) / step)), row] = 1.0
            now += lasts + rng.exponential(published.BURST_EVERY)
    return levels


def _office(steps: int, step: float, rng: np.random.Generator) -> np.ndarray:
    """Courses that are 1 in office hours and 0 by night and at weekends."""
    begin, end = (hour + rng.normal(0.0, published.OFFICE_SPREAD, ROWS) for hour in published.OFFICE_HOURS)
    now = np.arange(steps)[:, None] * step
    hour = now % DAY / HOUR
    weekday = now // DAY % 7 < 5
    return (weekday & (hour >= begin) & (hour < end)).astype(np.float32)


def _cron(steps: int, step: float, rng: np.random.Generator) -> np.ndarray:
    """Courses of which some are 0 but for an hour each night, and the others those of days."""
    levels = _days(steps, step, rng)
    second = np.arange(steps) * step % DAY - published.CRON_HOUR * HOUR
    nightly = (second >= 0) & (second < published.CRON_SECONDS)
    levels[:, : round(published.CRON_SHARE * ROWS)] = nightly[:, None]
    return levels


def _turns(steps: int, step: float) -> np.ndarray:
    """Courses that turn from 0 to 1 for good, the next one a little later; the last ones never do."""
    return (np.arange(steps)[:, None] * step >= _turn_width(steps, step) * np.arange(ROWS)).astype(np.float32)


def _turn_width(steps: int, step: float) -> float:
    return steps * step / (ROWS - 1)


def _hot_rows(arrival: Ints, steps: int, step: float, rng: np.random.Generator) -> Ints:
    """For each VM the course that turns when it is as old as was drawn."""
    least, most = (math.log(seconds) for seconds in published.HOT_AFTER)
    at = arrival * step + np.exp(rng.uniform(least, most, len(arrival)))
    rows: Ints = np.minimum(ROWS - 1, np.ceil(at / _turn_width(steps, step))).astype(np.int64)
    return rows


def _storms(steps: int, step: float) -> Bools:
    now = np.arange(steps) * step
    day, second = now // DAY, now % DAY
    begin = published.STORM_HOUR * HOUR
    weekly = day % published.STORM_EVERY_DAYS == published.STORM_EVERY_DAYS - 1
    storms: Bools = weekly & (second >= begin) & (second < begin + published.STORM_SECONDS)
    return storms


def seed_workload(
    arm: str,
    *,
    hosts: int,
    steps: int,
    step: float,
    rng: np.random.Generator,
    shape: HostShape,
) -> Fleet:
    """The seed's workload: as many VMs per host as the seed ran, that all come within an hour.

    ``arm`` is what becomes of freed memory: "none" keeps it, "ksm" merges some of it, "returned" gives it back. The
    first two are what the seed measured, a constant footprint. In the third a VM stands at a floor and every half
    hour at the top for as long as makes up the published average; the floor makes up the published total.
    """
    count = published.SEED_VMS[arm] * hosts
    duty = published.SEED_MEAN / published.SEED_TOP
    if arm == "returned":
        floor = published.SEED_RETURNED_USED / published.SEED_VMS[arm] - published.SEED_MEAN - published.QEMU_OWN
        top = float(published.SEED_TOP)
    else:
        floor = published.SEED_USED / published.SEED_VMS[arm] - published.QEMU_OWN
        top = 0.0
    # Each period's allocation comes at a moment of its own, so that VMs drift against each other.
    levels = np.zeros((steps, ROWS), dtype=np.float32)
    period = max(1, round(published.SEED_PERIOD / step))
    lasts = max(1, round(duty * period))
    periods = steps // period + 2
    begins = period * np.arange(periods)[:, None] - rng.integers(0, period, ROWS)
    begins += rng.integers(0, period - lasts + 1, (periods, ROWS))
    for later in range(lasts):
        at = begins + later
        inside = (at >= 0) & (at < steps)
        levels[at[inside], np.broadcast_to(np.arange(ROWS), at.shape)[inside]] = 1.0
    arrival = np.sort(rng.integers(0, max(1, min(steps, round(HOUR / step))), count))
    return Fleet(
        name=f"seed, freed memory: {arm}",
        shape=shape,
        hosts=hosts,
        step=step,
        steps=steps,
        arrival=arrival,
        departure=np.full(count, steps + 1, dtype=np.int64),
        memory=np.full(count, float(published.SEED_MEMORY)),
        offset=np.full(count, floor),
        scale=np.full(count, top),
        row=rng.integers(0, ROWS, count),
        levels=levels,
        warm_up=min(steps - 1, round(2 * HOUR / step)),
    )
