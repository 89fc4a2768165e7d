"""What goes wrong on a host while the cycle goes on: guests that hang or lie, a libvirtd and an agent that die."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence

import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import GIB, MIB
from memhint.cli.exits import Exit
from memhint.objects.domain import DomainState
from memhint.objects.gap import GapReason
from memhint.objects.guest import GuestKernel, GuestSource
from memhint.objects.lever import LeverName, Observed
from memhint.objects.report import Report
from tests.lab.watch import lever_of, named, wait_refusal

HUNG = 10
SOME = 2  # of them, that go on with the last one after they hung
PERIOD = 1.0
# The balloon's statistics come from a guest whose agent hangs, too: without them a hung agent shows.
AGENT_ONLY = {"DEFAULT": {"period": PERIOD}, "guest": {"call_timeout": 2, "interval": 1, "max_age": 6}}


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[AgentProcess, list[Guest]]]:
    """A healthy guest, and ten that will not be."""
    with (
        Lab(guests=HUNG + 1, memory=256 * MIB, budget=6 * GIB) as lab,
        AgentProcess(lab.hosts[0], AGENT_ONLY) as agent,
    ):
        yield agent, lab.hosts[0].guests


def kernel_of(agent: AgentProcess, guest: Guest) -> GuestKernel | None:
    return named(agent.report())[guest.name].observation.guest_kernel


def cycles(agent: AgentProcess, count: int) -> list[Report]:
    """So many reports, one after the other."""
    return [agent.report() for _ in range(count)]


def pace(agent: AgentProcess, count: int = 5) -> float:
    """Seconds per cycle, over some cycles."""
    first = agent.report()
    wait_for(lambda: (agent.newest() or first).sequence >= first.sequence + count, 10 * count * PERIOD, "more cycles")
    last = agent.newest()
    assert last is not None
    return (last.at - first.at) / (last.sequence - first.sequence)


def keeps_its_pace(agent: AgentProcess) -> None:
    """A machine that stalls for some seconds spoils one look; what hangs delays every cycle."""
    wait_for(lambda: pace(agent) < 1.5 * PERIOD, 60.0, "the cycle to keep its pace")


def answered(report: Report, name: str) -> bool:
    guest = named(report)[name].observation.guest
    return guest is not None and guest.source is GuestSource.PROC and report.at - guest.at < 6 * PERIOD


def wait_all_answered(agent: AgentProcess, guests: Sequence[Guest], what: str) -> None:
    """Each was read in a report: on a slow machine a round over all of them takes longer than a reading counts."""
    left = {one.name for one in guests}

    def look() -> bool:
        report = agent.report()
        left.difference_update([name for name in left if answered(report, name)])
        return not left

    wait_for(look, 120.0, what)


def none_answered(report: Report, guests: Sequence[Guest]) -> bool:
    return not any(answered(report, one.name) for one in guests)


def test_ten_hung_guest_agents_delay_neither_the_cycle_nor_virsh(stage) -> None:
    agent, (healthy, *others) = stage
    wait_all_answered(agent, [healthy, *others], "all to be read")
    for one in others:
        one.work("agent stop")
    wait_for(lambda: none_answered(agent.report(), others), 60.0, "the hung ones to show")
    keeps_its_pace(agent)
    took = []
    for _ in range(5):
        began = time.monotonic()
        subprocess.run(["virsh", "-c", healthy.host.uri, "list"], check=True, capture_output=True, timeout=60)
        took.append(time.monotonic() - began)
    assert sorted(took)[2] < 2.0, took
    wait_for(lambda: answered(agent.report(), healthy.name), 60.0, "the healthy one to be read all the same")

    def timed_out() -> bool:
        seen = named(agent.report())[others[0].name].observation
        assert seen.process is not None  # the host's own view needs no agent
        return any(gap.reason is GapReason.TIMEOUT for gap in seen.gaps)

    wait_for(timed_out, 60.0, "the reason to be told")
    for one in others:
        one.work("agent cont")
    wait_all_answered(agent, others, "all to be read again")
    # From here on a few are enough: each is read every second, which an emulated one has to work for.
    for one in others[SOME:-1]:
        one.stop()


@pytest.mark.parametrize("mode", ["noise", "nesting 90", "nesting 100000", "huge", "silent"])
def test_a_guest_agent_that_answers_nonsense_hurts_only_itself(stage, mode: str) -> None:
    agent, (healthy, victim, *_) = stage
    victim.work(f"agent garbage {mode}")
    try:
        wait_for(lambda: not answered(agent.report(), victim.name), 60.0, "the nonsense to show")

        def told() -> bool:
            seen = named(agent.report())[victim.name].observation
            return bool(seen.gaps or (seen.guest is not None and seen.guest.clamped))

        wait_for(told, 60.0, "the nonsense to be told as what it is")
        wait_for(lambda: answered(agent.report(), healthy.name), 60.0, "the healthy one to be read all the same")
        for report in cycles(agent, 3):
            seen = named(report)[victim.name].observation
            if seen.guest is not None and seen.guest.free is not None:
                assert seen.guest.free <= victim.memory
    finally:
        victim.work("agent start")
    wait_for(lambda: answered(agent.report(), victim.name), 60.0, "the guest to be read again")


def test_an_agent_as_windows_has_it_leaves_what_the_host_sees_and_says_what_is_missing(stage) -> None:
    """It has the file commands, and none of Linux's files; other commands it only names (lab/workload/workload.c)."""
    agent, (_, victim, *_) = stage
    victim.work("agent garbage windows")
    try:
        wait_for(lambda: (seen := kernel_of(agent, victim)) and seen.os == "mswindows", 120.0, "the system to be known")
        wait_for(lambda: not answered(agent.report(), victim.name), 60.0, "its memory not to be read any more")
        seen = named(agent.report())[victim.name]
        assert seen.observation.process is not None  # footprint, in full
        assert seen.observation.deep is not None
        assert any(
            gap.reason is GapReason.UNSUPPORTED and "Windows has no /proc" in gap.detail
            for gap in seen.observation.gaps
        )
        agent.memhint("set", victim.name, "guest_actions=allow", "guest_unbind=allow")
        refused = wait_refusal(agent, "set", victim.name, "reporting=off")
        assert refused.returncode == Exit.REFUSED
        state = lever_of(named(agent.report())[victim.name], LeverName.REPORTING)
        assert state.observed is not Observed.OFF
        assert agent.store().marks.all() == ()
        assert agent.memhint("reclaim", victim.name, check=False).returncode == Exit.REFUSED
    finally:
        agent.memhint("set", victim.name, "reporting=inherit", check=False)
        victim.work("agent start")
    wait_for(lambda: answered(agent.report(), victim.name), 60.0, "the guest to be read again")


def test_a_megabyte_of_nesting_may_cost_the_host_its_libvirtd_and_not_the_agent(stage) -> None:
    """libvirt parses the answer before memhint does; libvirt 9.0 does not survive every one."""
    agent, (healthy, victim, *_) = stage
    libvirtd = healthy.host.record.processes["libvirtd"]
    victim.work("agent garbage nesting")
    try:
        wait_for(lambda: not libvirtd.alive or not answered(agent.report(), victim.name), 60.0, "the answer to show")
    finally:
        victim.work("agent start")

    def read_again(guest: Guest) -> bool:
        # It may still be at the answer, and die of it now, also after others were read.
        if not healthy.host.record.processes["libvirtd"].alive:
            healthy.host.restart_libvirtd()
        return answered(agent.report(), guest.name)

    wait_for(lambda: read_again(healthy), 120.0, "the others to be read again")
    wait_for(lambda: read_again(victim), 120.0, "the guest to be read again")
    keeps_its_pace(agent)


def test_a_stopped_qemu_does_not_stop_the_cycle(stage) -> None:
    agent, (healthy, victim, *_) = stage
    victim.pause()
    try:
        wait_for(lambda: not answered(agent.report(), victim.name), 60.0, "the stopped one to show")
        keeps_its_pace(agent)  # one bulk call runs into its deadline of 2 s; the next pass it by
        wait_for(lambda: answered(agent.report(), healthy.name), 60.0, "the healthy one to be read all the same")
        assert named(agent.report())[victim.name].observation.process is not None
    finally:
        victim.resume()
    wait_for(lambda: answered(agent.report(), victim.name), 60.0, "the guest to be read again")


def test_libvirtd_may_be_restarted(stage) -> None:
    agent, (healthy, *_) = stage
    healthy.host.stop_libvirtd()
    report = wait_for(lambda: next((one for one in cycles(agent, 1) if one.gaps), None), 60.0, "the loss to show")
    assert report is not None
    assert len(report.domains) == HUNG + 1  # the VMs are still there, and so are their processes
    assert named(report)[healthy.name].observation.process is not None
    healthy.host.restart_libvirtd()
    wait_for(lambda: not agent.report().gaps, 60.0, "the connection to be there again")
    wait_for(lambda: answered(agent.report(), healthy.name), 60.0, "the guests to be read again")


def test_a_vm_that_is_killed_is_seen_to_be_gone(stage) -> None:
    agent, (healthy, *_, victim) = stage
    victim.process().kill(9)
    wait_for(
        lambda: named(agent.report())[victim.name].observation.state is DomainState.SHUTOFF, 60.0, "the VM to be off"
    )
    wait_for(lambda: answered(agent.report(), healthy.name), 60.0, "the healthy one to be read all the same")
    report = agent.report()
    demand = next(one for one in report.plan.demands if one.uuid == victim.uuid)
    assert demand.demand == demand.assigned  # it may start again at any time
    victim.start()
    wait_for(lambda: answered(agent.report(), victim.name), 60.0, "the VM to be read again")


def test_a_killed_agent_is_followed_by_one_that_knows_what_it_knew(stage) -> None:
    agent, (healthy, *_) = stage
    agent.memhint("set", healthy.name, "guest_actions=allow", "guest_unbind=allow")
    agent.memhint("set", healthy.name, "reporting=off")
    wait_for(lambda: len(agent.store().marks.all()) == 1, 60.0, "what was changed to be marked")
    before = agent.report()
    agent.kill()
    assert agent.memhint("status", check=False, patience=0).returncode in (0, 4)
    agent.start()
    after = agent.report()
    assert after.epoch != before.epoch
    assert named(after)[healthy.name].policy.reporting == "off"
    assert len(agent.store().marks.all()) == 1
    assert after.plan.capacity.headroom > 0  # it was away for less than three periods: the forecasts go on
    agent.memhint("set", healthy.name, "reporting=inherit")
    wait_for(lambda: agent.store().marks.all() == (), 60.0, "the guest to be as it was")
    assert healthy.meminfo()["balloon"] is True


def test_a_second_agent_is_refused_and_a_reload_is_taken(stage) -> None:
    agent, _ = stage
    second = agent.memhint("agent", check=False)
    assert second.returncode == 1
    assert "another memhint agent" in second.stderr
    before = agent.report()
    agent.configure({**AGENT_ONLY, "DEFAULT": {"period": 2}})
    assert agent.process is not None
    agent.process.send_signal(1)
    try:
        wait_for(lambda: agent.report().period == 2.0, 60.0, "the new period")
        after = agent.report()
        assert after.epoch == before.epoch
        agent.configure({"DEFAULT": {"period": -1}})
        agent.process.send_signal(1)
        wait_for(lambda: "not reloaded" in agent.log.read_text(), 60.0, "the wrong configuration to be refused")
        assert agent.report().period == 2.0
    finally:
        agent.configure(AGENT_ONLY)
        agent.process.send_signal(1)
    wait_for(lambda: agent.report().period == PERIOD, 60.0, "the old period again")
