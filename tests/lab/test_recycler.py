"""The page recycler on real guests: memory that is free in single pages comes back, at memhint's pace and no other."""

from __future__ import annotations

from collections.abc import Iterator

import libvirt_qemu
import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import GIB, MIB
from memhint.levers.recycler import PACE_KNOB
from memhint.objects.lever import LeverName, Observed
from memhint.objects.recycler import LEAVE_ORDER
from memhint.objects.verdict import Answer, Reason
from tests.lab.watch import holds, lever_of, named

SIZE = 448 * MIB
DATA = 240 * MIB  # every other page of it is free in the end
FREE = DATA // 2
SLACK = 24 * MIB  # what QEMU's own memory and the guest's kernel move by
SETTINGS = {
    "virt": {"allow_monitor_commands": True},
    "guest": {"interval": 1},
    "recycler": {"period": 0.5},
}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A guest with all it takes, one whose kernel marks nothing, and one on the distribution's QEMU."""
    with Lab(guests=0, budget=3 * GIB, kernel="6.12", agent="stock", emulator="memhint") as lab:
        whole = {"name": "whole", "kernel": "6.12-recycler", "recycler": True, "agent": "memhint"}
        unmarked = {"name": "unmarked", "recycler": True}
        stock = {"name": "stock", "emulator": "stock"}
        lab.hosts[0].add_guests([{"memory": SIZE, **one} for one in (whole, unmarked, stock)])
        yield lab


@pytest.fixture
def whole(lab: Lab) -> Guest:
    return next(one for one in lab.hosts[0].guests if one.name == "whole")


def knob(guest: Guest, name: str) -> int:
    """A property of its recycler, as QEMU itself has it."""
    command = f"qom-get /machine/peripheral/balloon0 recycler-{name}"
    return int(
        libvirt_qemu.qemuMonitorCommand(guest.domain(), command, libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP)
    )


def workers(guest: Guest) -> int:
    """Threads that QEMU has at work."""
    return knob(guest, "workers")


def wish(agent: AgentProcess, vm: str, value: str) -> None:
    agent.memhint("set", vm, f"recycler={value}", "--no-wait")


def test_single_free_pages_come_back_while_it_is_wished_and_the_pace_is_put_back(lab: Lab, whole: Guest) -> None:
    with AgentProcess(lab.hosts[0], SETTINGS) as agent:
        wish(agent, "whole", "off")
        whole.fragment("data", DATA)
        before, in_use = whole.resident(), lab.hosts[0].in_use()
        holds(lambda: whole.resident() > before - SLACK, 5.0, "nothing to come back while it is off")
        assert workers(whole) == 0

        wish(agent, "whole", "on")
        wait_for(
            lambda: before - whole.resident() >= 0.9 * FREE,
            120.0,
            "90 % of what is free in single pages to come back",
            seen=lambda: f"{(before - whole.resident()) // MIB} of {FREE // MIB} MiB",
        )
        # Of huge pages that are held in part nothing is free before they are split.
        wait_for(
            lambda: in_use - lab.hosts[0].in_use() >= 0.9 * FREE,
            120.0,
            "90 % of it to be free on the host",
            seen=lambda: f"{(in_use - lab.hosts[0].in_use()) // MIB} of {FREE // MIB} MiB",
        )
        state = wait_for(
            lambda: next(
                (one for one in [lever_of(named(agent.report())["whole"], LeverName.RECYCLER)] if one.verdict.ok), None
            ),
            60.0,
            "the report to say so",
        )
        assert (state.desired, state.observed) == ("on", Observed.ON)
        counters = named(agent.report())["whole"].observation.balloon_reporting.recycler
        assert counters.recycled >= 0.9 * FREE
        assert {one.knob for one in agent.store().marks.all() if one.subject == whole.uuid} >= {PACE_KNOB}
        whole.touch("data")  # each page that was given back is there again when it is needed
        whole.free("data")

        wish(agent, "whole", "inherit")
        wait_for(lambda: workers(whole) == 0, 60.0, "its threads to rest")
        wait_for(
            lambda: PACE_KNOB not in {one.knob for one in agent.store().marks.all()},
            60.0,
            "nothing to be owned any more",
        )


def test_whole_blocks_come_back_too_while_the_guest_has_switched_reporting_off(lab: Lab, whole: Guest) -> None:
    enabled = "/sys/module/page_reporting/parameters/enabled"
    with AgentProcess(lab.hosts[0], SETTINGS) as agent:
        wish(agent, "whole", "off")
        whole.work(f"write {enabled} 0")
        try:
            whole.alloc("data", DATA)
            whole.free("data")
            before = whole.resident()
            holds(lambda: whole.resident() > before - SLACK, 5.0, "nothing to come back while nobody gives it back")

            wish(agent, "whole", "on")
            wait_for(lambda: knob(whole, "leave-order") == 0, 60.0, "no block to be left to reporting")
            wait_for(
                lambda: before - whole.resident() >= 0.9 * DATA,
                120.0,
                "90 % of what is free in whole blocks to come back",
                seen=lambda: f"{(before - whole.resident()) // MIB} of {DATA // MIB} MiB",
            )
        finally:
            whole.work(f"write {enabled} 1")
        wait_for(lambda: knob(whole, "leave-order") == LEAVE_ORDER, 60.0, "blocks to be left to reporting again")
        whole.work(f"write {enabled} 0")
        wait_for(lambda: knob(whole, "leave-order") == 0, 60.0, "no block to be left to reporting")
        wish(agent, "whole", "inherit")
        wait_for(lambda: workers(whole) == 0, 60.0, "its threads to rest")
        assert knob(whole, "leave-order") == LEAVE_ORDER
        whole.work(f"write {enabled} 1")


def test_who_cannot_is_told_what_is_missing(lab: Lab) -> None:
    with AgentProcess(lab.hosts[0], SETTINGS) as agent:
        for vm, reason in (("unmarked", Reason.KERNEL), ("stock", Reason.DEVICE)):
            wish(agent, vm, "on")

            def said(vm: str = vm) -> Reason:
                return lever_of(named(agent.report())[vm], LeverName.RECYCLER).verdict.reason

            wait_for(lambda said=said, reason=reason: said() is reason, 60.0, f"{vm} to be told why", seen=said)
            state = lever_of(named(agent.report())[vm], LeverName.RECYCLER)
            assert state.verdict.answer is Answer.UNSUPPORTED
            assert state.verdict.detail


def test_an_agent_that_stops_or_is_killed_leaves_no_pace_behind(lab: Lab, whole: Guest) -> None:
    with AgentProcess(lab.hosts[0], SETTINGS) as agent:
        wish(agent, "whole", "on")
        wait_for(lambda: workers(whole) == 1, 60.0, "a thread to work")
        agent.kill()
        assert workers(whole) == 1
        agent.start()
        wish(agent, "whole", "off")
        wait_for(lambda: workers(whole) == 0, 60.0, "the successor to put the pace back")
        wish(agent, "whole", "on")
        wait_for(lambda: workers(whole) == 1, 60.0, "a thread to work again")
    wait_for(lambda: workers(whole) == 0, 60.0, "the agent to have put the pace back as it stopped")
