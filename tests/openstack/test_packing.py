"""memhint on a real OpenStack: more VMs than the nominal count, on real guests, and the way back."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.openstack import Stack
from lab.openstack.installed import CONTROLLER, Installed
from lab.openstack.packing import Packing, Settings, ready
from lab.sizes import MIB
from lab.waiting import wait_for

RELEASE = os.environ.get("MEMHINT_OPENSTACK_RELEASE", "34")
SETTINGS = Settings()


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    made = Installed()
    yield made
    made.close()


@pytest.fixture(scope="module")
def packing(installed: Installed) -> Iterator[Packing]:
    with Stack(
        RELEASE,
        computes=2,
        memory=SETTINGS.memory,
        reserved=SETTINGS.reserved,
        swap=SETTINGS.swap,
        extras=installed.extras(SETTINGS.reserved),
        name=f"os-{os.getpid()}",
    ) as stack:
        installed.attach(stack)
        yield Packing(stack, installed, SETTINGS, print)
        installed.close()


def test_the_nominal_number_fits_and_the_next_is_refused(packing: Packing) -> None:
    assert packing.ratio() == 1.0
    assert packing.fill() == (SETTINGS.memory - SETTINGS.reserved) // 2**30 == 4
    assert "No valid host" in packing.result.refused


def test_after_guests_freed_memory_nearly_twice_as_many_run(packing: Packing, installed: Installed) -> None:
    installed.agent(packing.compute)
    ready(installed, packing.stack, SETTINGS.host)
    packing.work_and_free()
    assert packing.pack() >= 1.8 * packing.result.nominal
    found = packing.verify()
    print(found)
    assert found.answering == found.running
    assert found.highest_use <= SETTINGS.memory
    assert (found.swap_used, found.oom_kills) == (0, 0)


def test_with_agent_and_controller_dead_the_filter_judges_by_nominal_accounting(
    packing: Packing, installed: Installed
) -> None:
    """Nobody is left to lower the ratio: Placement would let one more in, and it is the filter that does not."""
    wait_for(lambda: packing.room() > len(packing.vms), 60.0, "room for one more")
    installed.kill(CONTROLLER)
    installed.agents[SETTINGS.host].kill()
    wait_for(
        lambda: installed.get(f"/v1/hosts/{SETTINGS.host}")["host"]["state"] == "stale", 60.0, "the host to be stale"
    )
    assert packing.room() > len(packing.vms)
    assert not packing.boot()
    assert "stale" in packing.result.refused
    installed.start(CONTROLLER)
    installed.agent(packing.compute)
    # A new agent promises nominal accounting at first, and more from cycle to cycle.
    wait_for(lambda: packing.room() >= len(packing.vms), 180.0, "the promise to come back")


def test_a_storm_lowers_the_ratio_and_nobody_dies(packing: Packing) -> None:
    before = packing.ratio()
    packing.storm(256 * MIB)
    wait_for(lambda: packing.ratio() < before, 60.0, "the ratio to fall")
    found = packing.verify()
    assert found.answering == found.running
    assert found.oom_kills == 0


def test_a_dead_agents_host_goes_back_to_nominal_whatever_controller_is_there(
    packing: Packing, installed: Installed
) -> None:
    agent = installed.agents[SETTINGS.host]
    agent.kill()
    installed.kill(CONTROLLER)
    installed.start(CONTROLLER)
    wait_for(lambda: packing.ratio() == 1.0, 60.0, "the dead-man's ratio")
