"""Huge pages on a real guest: what is taken in single pages splits them, and the lever makes them again."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import GIB, MIB
from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import read_thp
from memhint.objects.lever import LeverName, LeverState, Observed
from tests.lab.watch import holds, named

SIZE = 448 * MIB
DATA = 240 * MIB
SETTINGS = {
    "virt": {"allow_monitor_commands": True},
    "guest": {"interval": 1},
    "recycler": {"period": 0.5},
}


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    """A guest whose kernel marks what is free. Nobody's KSM may merge its memory: a collapse would separate it."""
    if read_thp(KernelRoot()).enabled == "never":
        pytest.skip("transparent huge pages are off on this machine")
    with Lab(guests=0, budget=3 * GIB, kernel="6.12-recycler", agent="stock", emulator="memhint") as lab:
        guest = lab.hosts[0].add_guest("whole", memory=SIZE, recycler=True, start=False)
        domain = ET.fromstring(guest.domain().XMLDesc())
        ET.SubElement(ET.SubElement(domain, "memoryBacking"), "nosharepages")
        lab.hosts[0].connection().defineXML(ET.tostring(domain, encoding="unicode"))
        guest.start()
        yield guest


def huge(guest: Guest) -> int:
    """Bytes of QEMU's memory in huge pages."""
    for line in Path(f"/proc/{guest.pid()}/smaps_rollup").read_text().splitlines():
        if line.startswith("AnonHugePages:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no AnonHugePages")


def told(agent: AgentProcess, guest: Guest) -> list[LeverState]:
    """What the newest report has of the lever; nothing before it was asked."""
    return [one for one in named(agent.report())[guest.name].levers if one.lever is LeverName.THP]


def test_what_the_recycler_split_is_in_huge_pages_again_where_it_is_wished(guest: Guest) -> None:
    with AgentProcess(guest.host, SETTINGS) as agent:
        agent.memhint("set", guest.name, "thp=off", "--no-wait")
        agent.memhint("set", guest.name, "recycler=on", "--no-wait")
        guest.fragment("data", DATA)
        wait_for(
            lambda: huge(guest) < SIZE // 4,
            120.0,
            "its huge pages to be split",
            seen=lambda: f"{huge(guest) // MIB} MiB",
        )
        agent.memhint("set", guest.name, "recycler=off", "--no-wait")
        # Its holes are filled again, and nothing is freed: what is reported whole would be whole again by a mere fault.
        guest.touch("data")
        split = huge(guest)
        holds(lambda: huge(guest) < split + 64 * MIB, 5.0, "nobody to make huge pages while thp is off")

        agent.memhint("set", guest.name, "thp=on", "--no-wait")
        wait_for(
            lambda: huge(guest) >= split + DATA // 2,
            120.0,
            "its memory to be in huge pages again",
            seen=lambda: f"{split // MIB} before, {huge(guest) // MIB} MiB; {told(agent, guest)}",
        )
        state = wait_for(
            lambda: next((one for one in told(agent, guest) if one.verdict.ok and one.observed is Observed.ON), None),
            60.0,
            "the report to say what was done",
            seen=lambda: told(agent, guest),
        )
        assert (state.desired, state.observed) == ("on", Observed.ON)
    guest.touch("data")  # it is all there
