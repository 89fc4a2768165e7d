"""Hot and cold memory of processes on a fast and a slow node, by DAMON and move_pages of a real kernel.

Emulated memory is equally fast everywhere: what is shown is where memory lies, that none is lost, and what is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.sizes import MIB
from lab.virtual_host import Node, VirtualHost

DEADLINE = 900.0  # seconds of one call, on a machine that has much else to do
SIZE, HOT = 96 * MIB, 32 * MIB
BLOCK = 2 * MIB


@pytest.fixture(scope="module")
def host() -> Iterator[VirtualHost]:
    nodes = [Node(448 * MIB, "0-1"), Node(448 * MIB)]
    files = [Path(__file__).with_name("inside_tiering.py")]
    with VirtualHost(files, sum(node.memory for node in nodes), nodes=nodes) as host:
        yield host
        assert "Oops" not in host.console
        assert "BUG" not in host.console


@pytest.mark.parametrize("huge", [False, True], ids=["small pages", "huge pages"])
def test_what_is_hot_ends_on_the_fast_node_and_what_is_cold_on_the_slow_one(host: VirtualHost, huge: bool) -> None:
    seen = host.call("inside_tiering.settled", deadline=DEADLINE, size=SIZE, hot=HOT, huge=huge)
    print(f"\n{seen}")
    assert seen["before"] == {"hot_fast": 0, "cold_fast": SIZE - HOT}
    # a dry run says how much the bound alone asks for, and moves nothing
    assert seen["untouched"] == 0
    assert seen["foretold"]["one"].startswith("planned (dry_run): 24 MiB to slow nodes"), "of 64 MiB, 40 may stay"
    assert seen["after"]["hot_fast"] >= 0.9 * HOT
    assert seen["after"]["cold_fast"] <= 8 * MIB + 0.1 * HOT + BLOCK
    assert seen["moved_on"] >= 0.9 * HOT
    # once within its share of the fast node, it never was beyond it
    assert seen["over"] <= BLOCK
    assert seen["damaged"] == 0
    assert seen["asked"] < seen["window"], "DAMON is asked shortly before a window ends, and answers then"
    assert (seen["huge"] >= SIZE // 2) if huge else (seen["huge"] == 0)
    assert "opt_out" in seen["off"]
    assert seen["undone"].startswith("unchanged: nothing to put back")
    assert seen["slow_at_the_end"] == seen["slow"]


def test_on_a_full_fast_node_a_cold_vm_makes_room_down_to_its_minimum(host: VirtualHost) -> None:
    seen = host.call("inside_tiering.exchanged", deadline=DEADLINE, size=32 * MIB)
    print(f"\n{seen}")
    assert seen["least"] <= seen["cold_fast"] <= seen["least"] + BLOCK
    # what is free on the node comes and goes a little while this is at work
    assert abs(seen["hot_fast"] - (32 * MIB - seen["cold_fast"])) <= 4 * BLOCK
    assert seen["damaged"] == 0


def test_an_agent_that_is_killed_in_mid_move_leaves_nothing_to_be_put_right(host: VirtualHost) -> None:
    seen = host.call("inside_tiering.killed", deadline=DEADLINE, size=SIZE)
    print(f"\n{seen}")
    assert seen["signal"] == 9
    assert 0 < seen["left"]["fast"] < SIZE
    assert seen["left"]["fast"] + seen["left"]["slow"] == SIZE, "a page is at one place or at the other"
    assert seen["policies"], "the memory policy of every mapping is what it was"
    assert (seen["damaged"], seen["after"]) == (0, 0)
    assert seen["fast"] == SIZE, "a successor goes on"


def test_what_cannot_be_moved_is_refused_with_its_reason_and_nothing_is_half_done(host: VirtualHost) -> None:
    seen = host.call("inside_tiering.refusals", deadline=DEADLINE, size=SIZE)
    print(f"\n{seen}")
    assert seen["no_node"] == "4 MiB ENODEV"
    assert seen["still_there"]
    assert seen["bound"].startswith("unsupported (one_node)")
    assert seen["beyond_its_cpuset"] == "4 MiB EACCES"
    assert seen["widened"] == [0, 1]
    assert seen["limits"].startswith("refused (limits)")
    assert "the process ended" in seen["ended"]
    assert seen["gone"].startswith("pending (not_running)")


def test_a_vm_that_lies_on_two_nodes_is_gathered_where_its_cpus_may_run() -> None:
    files = [Path(__file__).with_name("inside_tiering.py")]
    nodes = [Node(512 * MIB, "0"), Node(384 * MIB, "1")]
    with VirtualHost(files, sum(node.memory for node in nodes), nodes=nodes) as host:
        seen = host.call("inside_tiering.gathered", deadline=DEADLINE, size=192 * MIB, other=1)
    print(f"\n{seen}")
    # half of it lay on each: its only processor may run on the second one alone, then on both
    assert seen["away"] == 192 * MIB
    assert seen["home"] == 192 * MIB
    assert seen["damaged"] == 0
