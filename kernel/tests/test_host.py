"""What a kernel for hosts has, and the selftests of its series, in a running machine with two NUMA nodes.

Run with kernel/tests/run --series host, which builds the kernel and names it in MEMHINT_KERNEL.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from case import KernelCase

from lab.kernel_guest import Guest, image_folder
from lab.virtual_host import Node, numa

MIB = 1 << 20
NODES = (Node(512 * MIB, "0-1"), Node(512 * MIB))


class HostCase(KernelCase):
    """One machine for all tests of a class."""

    nodes = NODES
    arguments = ""
    options: ClassVar[dict[str, Any]] = {}

    @classmethod
    def boot(cls) -> Guest:
        mib = sum(node.memory for node in cls.nodes) // MIB
        options = {"arguments": cls.arguments, "words": numa(cls.nodes), **cls.options}
        return Guest(image_folder(), mib=mib, balloon=False, **options)


class SelftestTest(HostCase):
    """The programs that the series brings, each as its patch has it."""

    def test_all(self) -> None:
        programs = sorted(path.name for path in image_folder().iterdir() if os.access(path, os.X_OK))
        for program in programs:
            with self.subTest(program):
                status, output = self.guest.try_run(program)
                print(output)
                assert status == 0, output
                assert "not ok" not in output


class MachineTest(HostCase):
    """The machine that the other tests stand on."""

    def test_two_nodes_the_second_of_a_lower_tier(self) -> None:
        assert self.guest.run("cat /sys/devices/system/node/has_memory") == "0-1"
        assert self.guest.run("cat /sys/devices/system/node/has_cpu") == "0"
        tiers = "/sys/devices/virtual/memory_tiering/memory_tier*/nodelist"
        assert sorted(self.guest.run(f"cat {tiers}").split()) == ["0", "1"]

    def test_what_memhint_reads(self) -> None:
        for path in (
            "/sys/kernel/mm/ksm/run",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/kernel/mm/page_idle/bitmap",
            "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
            "/sys/devices/system/memory/block_size_bytes",
            "/proc/pressure/memory",
            "/proc/self/ksm_stat",
        ):
            assert self.guest.try_run(f"[ -e {path} ]")[0] == 0, path
