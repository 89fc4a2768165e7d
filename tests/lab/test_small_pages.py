"""A VM that memhint-small-pages starts: real libvirt and QEMU, no huge page from its start, here and elsewhere."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import libvirt
import pytest

from lab import Guest, Host, Lab, wait_for
from lab.agent import AgentProcess
from lab.paths import cache_dir
from lab.sizes import GIB, MIB
from memhint.kernel.huge_blocks import Collapsed, GuestBlocks
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import HUGE_PAGE, read_thp
from memhint.objects.lever import Observed
from memhint.objects.verdict import Answer, Reason
from tests.lab.test_live_migration import migrate
from tests.lab.test_thp import huge, told
from tests.small_pages import built

SIZE = 320 * MIB
DATA = 128 * MIB
ROOT = KernelRoot()


@dataclass
class Twins:
    """Two guests that differ in nothing but what starts them."""

    here: Host
    there: Host
    wrapper: Path
    small: Guest
    other: Guest


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    if read_thp(ROOT).enabled == "never":
        pytest.skip("transparent huge pages are off on this machine")
    # In one place, for libvirt keeps what each emulator has said of itself.
    folder = cache_dir() / "small-pages"
    folder.mkdir(parents=True, exist_ok=True)
    wrapper = built(folder)
    with Lab(hosts=2, guests=0, memory=SIZE, budget=2 * GIB, network="127.1.9") as lab:
        here, there = lab.hosts
        small, other = (here.add_guest(name, start=False) for name in ("small", "other"))
        domain = ET.fromstring(small.domain().XMLDesc())
        devices = domain.find("devices")
        assert devices is not None
        for named in devices.findall("emulator"):
            devices.remove(named)
        ET.SubElement(devices, "emulator").text = str(wrapper)
        here.connection().defineXML(ET.tostring(domain, encoding="unicode"))
        for guest in (small, other):
            guest.start()
            booted = guest.resident()
            guest.alloc("work", DATA)
            print(f"{guest.name}: {booted // MIB} MiB resident once booted, {guest.resident() // MIB} with its work")
        yield Twins(here, there, wrapper, small, other)


def small_only(guest: Guest) -> bool:
    return bool(process_memory(ROOT, guest.pid()).small_pages)


def test_it_has_no_huge_page_where_its_twin_has_them_and_its_agent_says_so(twins: Twins) -> None:
    assert huge(twins.other) >= DATA // 2, "the twin has none either: this shows nothing"
    assert huge(twins.small) == 0
    assert twins.small.resident() > DATA
    assert (small_only(twins.small), small_only(twins.other)) == (True, False)
    program = Path(f"/proc/{twins.small.pid()}/exe").readlink()
    assert program == Path(f"/proc/{twins.other.pid()}/exe").readlink()

    with AgentProcess(twins.here, {"policy": {"thp": "on"}}) as agent:
        wait_for(
            lambda: any(one.observed is Observed.OFF for one in told(agent, twins.small)),
            60.0,
            "the report to say that it has none",
            seen=lambda: str(told(agent, twins.small)),
        )
        (state,) = told(agent, twins.small)
        assert (state.verdict.answer, state.verdict.reason) == (Answer.UNSUPPORTED, Reason.DEVICE)
        assert "small pages only" in agent.memhint("domains", "small").stdout
        assert "small pages only" not in agent.memhint("domains", "other").stdout


def test_the_kernel_collapses_nothing_of_it(twins: Twins) -> None:
    """Why the lever says so before it tries."""
    with GuestBlocks(ROOT, process_memory(ROOT, twins.small.pid()).instance) as blocks:
        full = next(one for one in blocks.small() if one.absent < HUGE_PAGE // 2)
        assert blocks.collapse(full) is Collapsed.UNFIT
    assert huge(twins.small) == 0


def test_it_moves_only_to_where_the_program_is_and_stays_as_it_is(twins: Twins) -> None:
    away = twins.wrapper.with_name("away")
    twins.wrapper.rename(away)
    with pytest.raises(libvirt.libvirtError, match=str(twins.wrapper)):
        migrate(twins.small, twins.there)
    twins.small.touch("work")  # it goes on where it was
    away.rename(twins.wrapper)
    migrate(twins.small, twins.there)
    pid = int((twins.there.run_dir / "qemu" / "small.pid").read_text())
    assert process_memory(ROOT, pid).small_pages
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    assert int(rollup.split("AnonHugePages:")[1].split()[0]) == 0
    assert "small" not in [one.name() for one in twins.here.connection().listAllDomains()]
    migrate(twins.small, twins.here, twins.there)  # whatever test comes after this one
    twins.small.know_qemu()
