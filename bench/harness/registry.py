"""All benches. A new one is a module of bench/suite with a BENCH in it, and its name here."""

from __future__ import annotations

import importlib

from bench.harness.bench import Bench

NAMES: tuple[str, ...] = (
    "density",
    "recycle",
    "fragments",
    "dedup",
    "migrate",
    "tiering",
    "next_allocation",
    "wake",
    "waking",
    "memhog",
    "thp",
    "pagefault",
    "netperf",
    "drain",
    "footprint",
    "scheduler",
    "ingest",
    "agent_cost",
)
"""In the order in which they are run and told of."""


def load(name: str) -> Bench:
    """The bench of that name. Raises KeyError for a name that none has."""
    if name not in NAMES:
        raise KeyError(name)
    bench: Bench = importlib.import_module(f"bench.suite.{name}").BENCH
    return bench
