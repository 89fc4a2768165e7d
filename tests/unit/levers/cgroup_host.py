"""A host with cgroup v2 as files in a directory: slices, VMs in scopes with libvirt's nesting, a swap disk."""

from __future__ import annotations

from memhint.objects.domain import DomainState
from memhint.objects.units import GIB, KIB
from tests.unit import builders
from tests.unit.kernel import recorded
from tests.unit.kernel.fake_root import FakeRoot

TOP = "/sys/fs/cgroup"
IDLE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


def pressure(avg10: float = 0.0, total: int = 0) -> str:
    line = f"avg10={avg10:.2f} avg60=0.00 avg300=0.00 total={total}"
    return f"some {line}\nfull {line}\n"


class CgroupHost:
    """VMs are made with ``vm``; files are looked at with ``text``."""

    def __init__(self, path) -> None:
        self.root = FakeRoot(path)
        self.root.write("proc/self/mounts", f"proc /proc proc rw 0 0\ncgroup2 {TOP} cgroup2 rw,nsdelegate 0 0\n")
        self.root.write(f"{TOP}/cgroup.procs", "1\n")
        self.root.write(f"{TOP}/system.slice/memory.min", "0\n")
        self.domains = {}
        self.homes: dict[str, str] = {}

    def cgroup(self, path: str, procs: str = "") -> None:
        if self.root.kernel.exists(f"{path}/memory.min"):
            return
        files = {"memory.min": "0\n", "memory.swap.max": "max\n", "memory.max": "max\n", "memory.high": "max\n"}
        files |= {"memory.current": f"{GIB}\n", "memory.swap.current": "0\n", "memory.pressure": IDLE}
        self.root.write_all(path, files | {"memory.reclaim": "", "cgroup.procs": procs})

    def vm(self, name: str, pid: int, slice_: str = "machine.slice", adj: int = 0, size: int = GIB):
        scope = f"{TOP}/{slice_}/machine-qemu\\x2d{pid}\\x2d{name}.scope"
        levels = slice_.split("/")
        for depth in range(len(levels)):
            self.cgroup(f"{TOP}/{'/'.join(levels[: depth + 1])}")
        self.cgroup(scope)
        self.cgroup(f"{scope}/libvirt", f"{pid}\n")
        self.root.write(f"{scope}/libvirt/emulator/cgroup.type", "threaded\n")
        self.homes[name] = f"{scope}/libvirt"
        self.process(name, pid, adj=adj)
        domain = builders.domain_observation(
            uuid=name,
            name=name,
            state=DomainState.RUNNING,
            facts=builders.facts(memory=size),
            process=builders.process(pid=pid, start_ticks=pid * 10),
        )
        self.domains[name] = domain
        return domain

    def process(self, name: str, pid: int, adj: int = 0) -> None:
        before, _, after = recorded.STAT.rpartition(")")
        words = after.split()
        words[19] = str(pid * 10)
        cgroup = self.homes[name].removeprefix(TOP)
        self.root.write_all(
            f"proc/{pid}",
            {
                "stat": f"{before}) {' '.join(words)}\n",
                "cgroup": f"0::{cgroup}/emulator\n",
                "oom_score_adj": f"{adj}\n",
            },
        )

    def end(self, name: str) -> None:
        pid = self.domains.pop(name).process.pid
        for file in (self.root.path / f"proc/{pid}").iterdir():
            file.unlink()
        (self.root.path / f"proc/{pid}").rmdir()

    def text(self, relative: str) -> str:
        return self.root.text(relative).strip()

    def swap(self, *lines: str) -> None:
        self.root.write("proc/swaps", recorded.SWAPS_NONE + "".join(f"{line}\n" for line in lines))

    def dm(self, number: int, name: str, uuid: str, *slaves: str) -> None:
        block = f"sys/block/dm-{number}"
        self.root.write(f"{block}/dm/name", f"{name}\n").write(f"{block}/dm/uuid", f"{uuid}\n")
        for slave in slaves:
            self.root.write(f"{block}/slaves/{slave}/dev", "")


def swap_line(name: str = "/dev/dm-0", kind: str = "partition", size: int = 8 * GIB, used: int = 0, priority: int = -2):
    return f"{name} {kind} {size // KIB} {used // KIB} {priority}"
