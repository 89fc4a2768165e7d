"""A virtual host with NUMA nodes: its kernel takes the node without processors for slow memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.sizes import MIB
from lab.virtual_host import Node, VirtualHost, numa


def test_a_node_without_processors_is_a_tier_of_its_own() -> None:
    with VirtualHost(
        [Path(__file__).parent / "inside_nodes.py"], 768 * MIB, nodes=[Node(384 * MIB, "0-1"), Node(384 * MIB)]
    ) as host:
        seen = host.call("inside_nodes.seen")
    assert seen["tiers"] == [[0], [1]]
    assert seen["cpus"] == ["0-1", ""]
    assert all(total > 300 * MIB for total in seen["memory"])


def test_nodes_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="add up"):
        VirtualHost([], 768 * MIB, nodes=[Node(MIB, "0")])


def test_nodes_that_all_have_processors_need_no_table_of_latencies() -> None:
    assert not any("hmat" in word for word in numa([Node(MIB, "0"), Node(MIB, "1")]))
