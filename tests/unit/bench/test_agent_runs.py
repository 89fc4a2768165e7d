"""The VMs of libvirt's test driver that a whole agent is measured on."""

from __future__ import annotations

from pathlib import Path

import libvirt
import pytest

from bench.agent_runs import write_node
from bench.fleet import vm_processes
from memhint.agent.processes import Processes
from memhint.kernel.root import KernelRoot
from memhint.virt.domain_xml import Definition, parse_domain


@pytest.fixture
def definitions(tmp_path: Path) -> dict[str, Definition]:
    node = write_node(tmp_path, {f"00000000-0000-0000-0000-00000000000{number}": number for number in (1, 2)})
    connection = libvirt.open(f"test://{node}")
    try:
        running = connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING)
        return {one.UUIDString(): parse_domain(one.XMLDesc()) for one in running}
    finally:
        connection.close()


def test_they_run_and_are_defined_as_guests_are(definitions: dict[str, Definition]) -> None:
    assert len(definitions) == 2
    for one in definitions.values():
        facts = one.facts
        assert (facts.balloon, facts.reporting_offered, facts.guest_agent, facts.stats_period) == (True, True, True, 10)


def test_their_processes_are_found_by_their_pid_files(tmp_path: Path) -> None:
    with vm_processes(2) as processes:
        write_node(tmp_path, {uuid: process.pid for uuid, process in processes.items()})
        names = {uuid: f"vm-{number}" for number, uuid in enumerate(processes)}
        found, _ = Processes(KernelRoot(), tmp_path, 4096, wait=60.0).read(names, {})
        assert {uuid: one.pid for uuid, one in found.items()} == {uuid: one.pid for uuid, one in processes.items()}
    assert all(process.poll() is not None for process in processes.values())
