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


def test_a_huge_page_is_made_where_its_small_ones_lie_whoever_asks() -> None:
    """What the lever thp rests on: it makes nothing far that was near."""
    nodes = [Node(256 * MIB, "0"), Node(256 * MIB, "1")]
    with VirtualHost([Path(__file__).parent / "inside_nodes.py"], 512 * MIB, nodes=nodes) as host:
        for there, elsewhere in ((1, 0), (0, 1)):
            found = host.call("inside_nodes.collapsed", touched_by=there, by=elsewhere)
            assert found["huge"] == 2 * MIB
            assert found[f"before_{there}"] >= 512
            assert found[f"after_{there}"] >= 512
            assert found.get(f"after_{elsewhere}", 0) == found.get(f"before_{elsewhere}", 0)


def test_nodes_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="add up"):
        VirtualHost([], 768 * MIB, nodes=[Node(MIB, "0")])


def test_nodes_that_all_have_processors_need_no_table_of_latencies() -> None:
    assert not any("hmat" in word for word in numa([Node(MIB, "0"), Node(MIB, "1")]))
