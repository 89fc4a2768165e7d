"""What an access costs is measured on this very machine, and says what it is the ratio of."""

from __future__ import annotations

import pytest

from memhint.kernel import memory_latency
from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError
from memhint.kernel.memory_latency import Latency, main, measure
from memhint.kernel.root import KernelRoot

from . import recorded
from .fake_root import FakeRoot


def test_the_ratio_is_far_and_huge_over_near_and_small() -> None:
    assert Latency(200e-9, 150e-9, 300e-9).far_huge_ratio == pytest.approx(1.5)
    assert Latency(200e-9, 150e-9, None).far_huge_ratio is None


def test_memory_that_processors_do_not_keep_takes_longer_than_what_they_do() -> None:
    try:
        found = measure(KernelRoot())
    except KernelInterfaceError as error:
        pytest.skip(f"nothing can be measured here: {error}")
    assert 5e-9 < found.near_huge < 1e-5
    assert 5e-9 < found.near_small < 1e-5


def test_a_host_without_nodes_is_said_to_have_none(fake: FakeRoot) -> None:
    fake.write("sys/devices/system/node/node0/meminfo", recorded.NODE_MEMINFO)
    fake.write("sys/devices/system/node/node0/cpulist", "\n")
    with pytest.raises(InterfaceMissing, match="no node with processors"):
        measure(fake.kernel)


def test_far_is_the_next_node_with_memory(fake: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    for node, cpus in ((0, ""), (1, "0-3"), (2, "4-7")):
        text = recorded.NODE_MEMINFO.replace("Node 0", f"Node {node}")
        fake.write(f"sys/devices/system/node/node{node}/meminfo", text)
        fake.write(f"sys/devices/system/node/node{node}/cpulist", f"{cpus}\n")
    asked: list[tuple[set[int], int, bool]] = []

    def access(cpus: set[int], node: int, *, huge: bool) -> float:
        asked.append((cpus, node, huge))
        return 1e-7

    monkeypatch.setattr(memory_latency, "_access", access)
    assert measure(fake.kernel).far_huge_ratio == 1.0
    assert asked == [({0, 1, 2, 3}, 1, False), ({0, 1, 2, 3}, 1, True), ({0, 1, 2, 3}, 0, True)]


def test_where_it_cannot_be_measured_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(root: KernelRoot) -> Latency:
        raise InterfaceMissing("set_mempolicy", "not here")

    monkeypatch.setattr(memory_latency, "measure", missing)
    assert main() == 1
    assert "not measured" in capsys.readouterr().out
    monkeypatch.setattr(memory_latency, "measure", lambda root: Latency(2e-7, 1e-7, 3e-7))
    assert main() == 0
    assert "far_huge_ratio = 1.50" in capsys.readouterr().out
