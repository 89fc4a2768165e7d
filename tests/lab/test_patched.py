"""Guests with the project's own kernel and agent: exact counters, and a switch that needs no unbinding."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import GIB, MIB
from memhint.objects.guest import GuestMemory, GuestSource
from memhint.objects.lever import LeverName, Observed
from memhint.objects.report import DomainReport
from memhint.objects.verdict import Answer
from tests.lab.watch import holds, lever_of, named, wait_verdict

WORK = 700 * MIB
NOISE = 40 * MIB  # what an idle guest moves between two looks


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[AgentProcess, Guest, Guest]]:
    """An agent, a guest with both patched pieces, and one with the patched agent on a stock kernel."""
    with Lab(guests=0, budget=5 * GIB, kernel="6.12-memhint", agent="memhint") as lab:
        host = lab.hosts[0]
        both, half = host.add_guests(
            [{"name": "both", "memory": 1 * GIB}, {"name": "half", "memory": 1 * GIB, "kernel": "6.12"}]
        )
        with AgentProcess(host) as agent:
            yield agent, both, half


def told(agent: AgentProcess, guest: Guest) -> GuestMemory:
    """What the guest said of its memory, newly asked."""
    before = named(agent.report())[guest.name].observation.guest

    def newer() -> GuestMemory | None:
        found = named(agent.report())[guest.name].observation.guest
        return found if found is not None and (before is None or found.at > before.at) else None

    found = wait_for(newer, 60.0, f"{guest.name} to be asked again")
    assert found is not None
    return found


def counted(agent: AgentProcess, guest: Guest) -> DomainReport | None:
    """The guest's report, once it goes by what the guest's kernel counts: of one that is late, the balloon tells."""
    found = agent.domain(guest.name)
    return found if found.reclaimable[0].source is GuestSource.KERNEL else None


def idle(agent: AgentProcess, guest: Guest) -> GuestMemory | None:
    found = told(agent, guest)
    return found if found.unreported is not None and found.unreported <= NOISE else None


def test_a_patched_kernel_counts_and_a_stock_one_is_looked_into(stage) -> None:
    agent, both, half = stage
    agent.memhint("set", both.name, "guest_actions=allow", "reporting=on")
    for guest, source in ((both, GuestSource.KERNEL), (half, GuestSource.KPAGEFLAGS)):
        found = wait_for(lambda guest=guest: idle(agent, guest), 60.0, "everything free to be reported")
        assert found is not None
        assert found.source is source
        assert found.reported is not None
        assert found.free is not None
        assert found.reported >= 0.8 * found.free
        assert found.clamped == ()


def test_off_leaves_it_unreported_and_on_reports_it_without_another_free(stage) -> None:
    agent, guest, _ = stage
    agent.memhint("set", guest.name, "guest_actions=allow")
    agent.memhint("set", guest.name, "reporting=off")
    wait_verdict(agent, guest.name, LeverName.REPORTING, {Answer.UNCHANGED})
    guest.alloc("work", WORK, content="random")
    before = guest.resident()
    guest.free("work")
    wait_for(lambda: (told(agent, guest).unreported or 0) >= 0.9 * WORK, 60.0, "the free memory to show as unreported")
    holds(lambda: before - guest.resident() < 50 * MIB, 20.0, "resident is unchanged with reporting off")
    domain = wait_for(lambda: counted(agent, guest), 60.0, "what the guest counts")
    assert domain is not None
    assert lever_of(domain, LeverName.REPORTING).observed is Observed.OFF
    assert domain.reclaimable[0].source is GuestSource.KERNEL
    assert domain.reclaimable[0].at_most >= 0.9 * WORK
    agent.memhint("set", guest.name, "reporting=on")
    wait_for(lambda: before - guest.resident() >= 0.9 * WORK, 60.0, "resident to fall without another free")
    wait_for(lambda: idle(agent, guest), 60.0, "nothing to be left unreported")
    wait_for(lambda: agent.store().marks.all() == (), 60.0, "nothing to be owned any more")


def test_stopping_the_agent_switches_it_on_again(stage) -> None:
    agent, guest, _ = stage
    agent.memhint("set", guest.name, "guest_actions=allow")
    agent.memhint("set", guest.name, "reporting=off")
    wait_for(
        lambda: guest.work("read /sys/module/page_reporting/parameters/enabled")["text"].strip() == "N", 60.0, "off"
    )
    assert agent.stop() == 0
    assert guest.work("read /sys/module/page_reporting/parameters/enabled")["text"].strip() == "Y"
    agent.start()  # whatever test comes after this one
