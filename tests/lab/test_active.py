"""Active memory against workloads whose working set is known to the page, and beside others who use DAMON."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.sizes import MIB
from lab.virtual_host import VirtualHost

SIZE = 64 * MIB
WORKLOADS = ("sequential", "random", "zipf", "phases", "idle")


@pytest.fixture(scope="module")
def host() -> Iterator[VirtualHost]:
    with VirtualHost([Path(__file__).with_name("inside_active.py")], 768 * MIB) as host:
        yield host
        assert "Oops" not in host.console


@pytest.fixture(scope="module", params=["damon", "referenced"])
def found(host: VirtualHost, request: pytest.FixtureRequest) -> dict[str, list[dict[str, Any]]]:
    """By workload, each reading."""
    seen: dict[str, list[dict[str, Any]]] = host.call(
        "inside_active.measure", source=request.param, workloads=WORKLOADS, at=28.0
    )
    return seen


@pytest.mark.parametrize("workload", WORKLOADS)
def test_active_memory_is_within_a_tenth_of_the_truth(found: dict[str, list[dict[str, Any]]], workload: str) -> None:
    seen = found[workload][-1]
    print(
        f"\n{workload}: {seen['active'] / MIB:.1f} MiB of {seen['truth'] / MIB:.1f} active,"
        f" error {seen['error'] / MIB:.1f};"
        f" idle for longer {seen['idle'][-1][1] / MIB:.1f} of {seen['idle_truth'] / MIB:.1f};"
        f" {seen['cpu_percent']:.2f} % of a core; a window of {seen['lasted']:.2f} s"
    )
    assert abs(seen["active"] - seen["truth"]) <= 0.1 * SIZE
    assert len(seen["idle"]) == 2
    assert seen["idle"][-1][1] <= seen["idle_truth"] + 0.1 * SIZE


def test_a_second_inside_is_a_second_outside(host: VirtualHost) -> None:
    """It finds out at boot how fast a clock goes, and must not go wrong by a machine that is busy just then."""
    before = time.monotonic()
    began = host.call("time.monotonic")
    after = time.monotonic()
    time.sleep(2.0)
    until = time.monotonic()
    ended = host.call("time.monotonic")
    assert 0.99 * (until - after) <= ended - began <= 1.01 * (time.monotonic() - before)


def test_kdamonds_of_somebody_else_are_left_alone(host: VirtualHost) -> None:
    seen = host.call("inside_active.beside_another")
    assert "somebody else" in seen["said"]
    assert (seen["left"], seen["marks"]) == ("paddr", 0)


def test_a_successor_takes_up_what_a_killed_agent_left(host: VirtualHost) -> None:
    assert host.call("inside_active.killed_agent") == {"left": "on", "again": "on", "after": 0, "marks": 0}


def test_a_process_that_ends_is_said_to_be_gone(host: VirtualHost) -> None:
    assert host.call("inside_active.ended_process") == "ProcessGone"
    assert host.call("inside_active.nr_kdamonds") == 0
