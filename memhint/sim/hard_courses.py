"""Courses of use that are hard to foresee: leaks, crowds, VMs in antiphase, bursts with heavy tails.

Each function gives levels from 0 to 1, a row per step and a column per course. All figures are `published`'s.
"""

from __future__ import annotations

import math

import numpy as np

from memhint.sim import published

DAY, HOUR = 86400.0, 3600.0


def leaks(days: np.ndarray, step: float, rng: np.random.Generator) -> np.ndarray:
    """Some courses of ``days`` rise in a line to 1, are restarted, and rise again, each with a period of its own."""
    steps, rows = days.shape
    count = round(published.LEAK_SHARE * rows)
    least, most = (math.log(seconds) for seconds in published.LEAK_LASTS)
    period = np.exp(rng.uniform(least, most, count))
    begun = rng.uniform(0.0, period)
    now = np.arange(steps)[:, None] * step
    days[:, :count] = (now + begun) % period / period
    return days


def crowds(days: np.ndarray, step: float, rng: np.random.Generator) -> np.ndarray:
    """Courses of ``days``, of which some rise to 1 together for hours, at no hour that repeats; others each time."""
    steps, rows = days.shape
    found = published.FLASH_USUAL * days
    now = rng.exponential(published.FLASH_EVERY)
    while now < steps * step:
        drawn = rng.random(rows) < published.FLASH_SHARE
        begin = int(now / step)
        end = max(begin + 1, math.ceil((now + published.FLASH_SECONDS) / step))
        found[begin:end, drawn] = 1.0
        now += published.FLASH_SECONDS + rng.exponential(published.FLASH_EVERY)
    return found


def antiphase(steps: int, step: float, rows: int) -> np.ndarray:
    """Courses of days of which half peak at noon and half at midnight: all together they are constant."""
    hour = np.arange(steps) * step % DAY / HOUR
    day = (1.0 - np.cos(2 * math.pi * hour / 24.0)) / 2.0
    by_day = np.arange(rows) % 2 == 0
    found: np.ndarray = np.where(by_day, day[:, None], 1.0 - day[:, None]).astype(np.float32)
    return found


def tails(steps: int, step: float, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Quiet courses with bursts whose height has a Pareto tail: most are small, and a few take all there is."""
    levels = np.zeros((steps, rows), dtype=np.float32)
    for row in range(rows):
        now = rng.exponential(published.BURST_EVERY)
        while now < steps * step:
            lasts = rng.lognormal(math.log(published.BURST_MEDIAN), published.BURST_SIGMA)
            height = min(1.0, published.TAIL_LEAST * (1.0 - rng.random()) ** (-1.0 / published.TAIL_SHAPE))
            begin = int(now / step)
            levels[begin : max(begin + 1, math.ceil((now + lasts) / step)), row] = height
            now += lasts + rng.exponential(published.BURST_EVERY)
    return levels
