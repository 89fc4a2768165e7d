"""What the agent does, alone: its cycle over stand-ins, the whole agent beside guests, and its deep reads.

The cycle (observe, plan, publish into SQLite) is the real one; libvirt and the guests are stand-ins behind the same
interfaces, for a hundred guests do not fit on a small machine, while every VM has a real process to be read. The whole
agent runs beside a few real guests, and on a hundred VMs of libvirt's test driver, behind a real libvirtd.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cpu import cpu_seconds
from bench.fleet import FakeFleet, vm_processes
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import deep_memory
from memhint.objects.units import GIB, MIB

if TYPE_CHECKING:
    from lab.host import Host

PERIOD = 10.0  # seconds, as shipped


def main() -> int:
    """The child process of `cycles`: its own CPU and memory are what is measured."""
    print(json.dumps(_cycles(int(sys.argv[1]), int(sys.argv[2]))))
    return 0


# -- the cycle ---------------------------------------------------------------------------------------------------------


def cycles(vms: int, count: int) -> dict[str, Any]:
    """So many cycles over so many VMs, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.agent_runs", str(vms), str(count)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _cycles(vms: int, count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory, FakeFleet(vms, Path(directory)) as fleet:
        for _ in range(5):
            fleet.cycle()
        cpu = []
        for _ in range(count):
            began = time.process_time()
            fleet.cycle()
            cpu.append(time.process_time() - began)
        return {
            "cpu": cpu,
            "rss": process_memory(KernelRoot(), os.getpid()).rss,
        }


# -- the real agent ----------------------------------------------------------------------------------------------------


def real_agent(guests: int, cycles: int) -> dict[str, Any]:
    """The agent as shipped beside real guests; its first start makes the store."""
    from lab import Lab

    with Lab(guests=guests, memory=512 * MIB, budget=4 * GIB) as lab:
        return _whole(lab.hosts[0], {}, cycles)


def crowded_agent(vms: int, cycles: int) -> dict[str, Any]:
    """The same on so many VMs of libvirt's test driver. They have processes to be read, and no guests."""
    from lab import Lab

    with Lab(guests=0, budget=4 * GIB) as lab, tempfile.TemporaryDirectory() as folder, vm_processes(vms) as processes:
        node = write_node(Path(folder), {uuid: process.pid for uuid, process in processes.items()})
        uri = f"test+unix://{node}?socket={lab.hosts[0].socket}"
        return _whole(lab.hosts[0], {"virt": {"uri": uri, "run_dir": folder}}, cycles)


def write_node(directory: Path, pids: Mapping[str, int]) -> Path:
    """The file of a host for libvirt's test driver, with a VM for each UUID, beside their pid files."""
    domains = []
    for number, (uuid, pid) in enumerate(pids.items()):
        (directory / f"vm-{number}.pid").write_text(str(pid))
        domains.append(_DOMAIN.format(name=f"vm-{number}", uuid=uuid))
    node = directory / "node.xml"
    node.write_text(f"<node>{''.join(domains)}</node>")
    return node


_DOMAIN = """
<domain type='test'>
  <name>{name}</name> <uuid>{uuid}</uuid> <memory unit='GiB'>4</memory> <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <devices>
    <channel type='unix'><source mode='bind'/><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <memballoon model='virtio' freePageReporting='on'><stats period='10'/></memballoon>
  </devices>
</domain>
"""


def _whole(host: Host, more: Mapping[str, Mapping[str, Any]], cycles: int) -> dict[str, Any]:
    from bench.harness.precondition import require
    from lab import wait_for
    from lab.agent import AgentProcess

    # Much of its work goes by the clock and not by the cycle, so a shorter period cannot stand for the shipped one.
    settings = {
        "DEFAULT": {"period": PERIOD},
        "guest": {"interval": PERIOD, "max_age": 60},
        "observe": {"deep_cpu_percent": 0.5, "deep_interval": 60},
        **more,
    }
    with AgentProcess(host, settings) as agent:
        agent.stop()
        agent.start()
        assert agent.process is not None
        pid = agent.process.pid
        first = agent.report()
        begin = cpu_seconds(pid)
        wait_for(
            lambda: (agent.newest() or first).sequence >= first.sequence + cycles,
            60.0 + 2 * cycles * PERIOD,
            f"{cycles} cycles",
            interval=0.5,
        )
        last = agent.newest()
        assert last is not None
        unread = [one.observation.name for one in last.domains if one.observation.process is None]
        require(not unread, f"the agent has not read the processes of {', '.join(unread)}")
        cpu = (cpu_seconds(pid) - begin) / (last.sequence - first.sequence)
        return {
            "cpu": cpu,
            "rss": process_memory(KernelRoot(), pid).rss,
            "vms": len(last.domains),
        }


# -- deep reads --------------------------------------------------------------------------------------------------------


@contextmanager
def _mapped(size: int) -> Iterator[int]:
    """The pid of a real QEMU that has so many bytes of guest memory mapped in 4 KiB pages."""
    from lab import Lab

    with Lab(guests=0, budget=size + 2 * GIB, thp=False) as lab:
        guest = lab.hosts[0].add_guest("large", memory=size + 512 * MIB, reporting=False)
        guest.alloc("work", size)
        yield guest.pid()


def deep(size: int, rounds: int) -> dict[str, Any]:
    """Deep reads of a QEMU with `size` bytes of guest memory, beside the cheap read of every cycle. Seconds of CPU."""
    root = KernelRoot()
    with _mapped(size) as pid:
        rss = process_memory(root, pid).rss
        slow, cheap = [], []
        for _ in range(rounds):
            began = time.thread_time()
            deep_memory(root, pid, 0.0)
            slow.append(time.thread_time() - began)
            began = time.thread_time()
            process_memory(root, pid)
            cheap.append(time.thread_time() - began)
    return {"rss": rss, "deep": slow, "cheap": cheap}


if __name__ == "__main__":
    sys.exit(main())
