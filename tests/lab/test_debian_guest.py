"""An installed Debian as guest (systemd, ext4, its own kernel and agent) under a stock libvirt, from boot to restore.

One guest serves the whole file: it takes most of a minute to boot where it is emulated. `--guest debian13` takes the
other release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.debian_guest import AGENT_DROP_IN
from lab.sizes import GIB, MIB
from memhint.objects.domain import DomainState
from memhint.objects.gap import GapReason
from memhint.objects.guest import GuestSource
from memhint.objects.lever import LeverName, Observed
from memhint.objects.report import DomainReport
from memhint.objects.verdict import Answer
from tests.lab.watch import holds, lever_of, named, switch_reporting, wait_verdict

WORK = 300 * MIB
FALL = 250 * MIB  # by which resident falls when that is freed and reported
DRIFT = 50 * MIB  # by which it may where it is not
FILE = 160 * MIB  # read into the page cache
SOON = 120.0  # seconds for what takes some cycles and an emulated guest's services


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[tuple[AgentProcess, Guest]]:
    """A guest with the distribution's agent, and that of memhint's beside it, not yet in use."""
    kind = request.config.getoption("--guest")
    with Lab(
        guests=0, memory=768 * MIB, budget=3 * GIB, kernel=kind, agent="memhint", translation_cache=96 * MIB
    ) as lab:
        guest = lab.hosts[0].add_guest("debian")
        guest.sh("systemctl is-system-running --wait || true")  # agent and workload answer before the boot is through
        guest.sh(f"mv {AGENT_DROP_IN} {AGENT_DROP_IN}.off && systemctl daemon-reload")
        guest.sh("systemctl restart qemu-guest-agent")
        guest.wait_agent()
        with AgentProcess(lab.hosts[0]) as agent:
            yield agent, guest


def reporting(agent: AgentProcess, guest: Guest) -> Observed:
    return lever_of(agent.domain(guest.name), LeverName.REPORTING).observed


def use_and_free(guest: Guest) -> int:
    """Fill and free memory in the guest; what was resident just before the free."""
    guest.alloc("work", WORK)
    before = guest.resident()
    guest.free("work")
    return before


def report_again(guest: Guest) -> None:
    """The switch of Linux 6.1 only arms: the guest's next free of a large block starts the reporting."""
    guest.alloc("spark", 64 * MIB)
    guest.free("spark")


def read_by_agent(agent: AgentProcess, guest: Guest, since: float = 0.0) -> DomainReport | None:
    """Its report, once it goes by what its agent read after `since`."""
    found = agent.domain(guest.name)
    seen = found.observation.guest
    fresh = seen is not None and seen.source in (GuestSource.PROC, GuestSource.KPAGEFLAGS) and seen.at > since
    return found if fresh else None


def test_it_is_seen_and_its_reporting_is_switched_off_and_on(stage) -> None:
    agent, guest = stage
    switch_reporting(agent, guest, Observed.ON, SOON)
    now = agent.report().at
    found = wait_for(lambda: read_by_agent(agent, guest, now), SOON, "the guest to be read")
    seen, kernel = found.observation.guest, found.observation.guest_kernel
    inside = guest.meminfo()
    assert seen.source is GuestSource.PROC
    assert seen.total == inside["MemTotal"]
    assert abs(seen.free - inside["MemFree"]) < 64 * MIB
    assert (kernel.os, kernel.release, kernel.boot_id) == ("debian", inside["kernel"], inside["boot_id"])
    assert kernel.reporting_offered
    assert found.observation.gaps == ()
    (row,) = json.loads(agent.memhint("domains", "--json").stdout)
    assert row["name"] == guest.name
    assert "1: 1 running" in agent.memhint("status").stdout

    before = use_and_free(guest)
    wait_for(lambda: before - guest.resident() >= FALL, SOON, "resident to fall with reporting on")
    switch_reporting(agent, guest, Observed.OFF, SOON)
    wait_verdict(agent, guest.name, LeverName.REPORTING, {Answer.UNCHANGED}, SOON)
    before = use_and_free(guest)
    holds(lambda: before - guest.resident() < DRIFT, 6.0, "resident does not fall with reporting off")
    switch_reporting(agent, guest, Observed.ON, SOON)
    report_again(guest)
    wait_for(lambda: before - guest.resident() >= FALL, SOON, "resident to fall with reporting on again")
    wait_for(lambda: agent.store().marks.all() == (), SOON, "nothing to be owned any more")


def test_what_was_switched_outlives_saving_restoring_and_rebooting(stage) -> None:
    agent, guest = stage
    switch_reporting(agent, guest, Observed.OFF, SOON)
    boot = guest.boot_id

    guest.save()
    wait_for(
        lambda: named(agent.report())[guest.name].observation.state is not DomainState.RUNNING, SOON, "it to be off"
    )
    assert len(agent.store().marks.all()) == 1
    guest.start()
    assert guest.boot_id == boot
    now = agent.report().at
    wait_for(lambda: read_by_agent(agent, guest, now), SOON, "the guest to be read again")
    assert reporting(agent, guest) is Observed.OFF
    before = use_and_free(guest)
    holds(lambda: before - guest.resident() < DRIFT, 5.0, "resident does not fall after the restore either")

    guest.work("sh systemctl reboot")
    is_off_in_another_boot(agent, guest)


def test_what_was_switched_outlives_a_reset(stage) -> None:
    agent, guest = stage
    switch_reporting(agent, guest, Observed.OFF, SOON)
    qemu = guest.pid()
    guest.domain().reset()
    is_off_in_another_boot(agent, guest)
    assert guest.pid() == qemu


def is_off_in_another_boot(agent: AgentProcess, guest: Guest) -> None:
    """The guest boots, is read, and its reporting is switched off again."""
    guest.wait_rebooted()
    assert guest.sh("systemctl is-system-running --wait || true").strip() == "running"
    now = agent.report().at
    wait_for(lambda: read_by_agent(agent, guest, now), SOON, "the new boot to be read")
    wait_for(lambda: reporting(agent, guest) is Observed.OFF, SOON, "the wish to be carried out in the new boot")
    before = use_and_free(guest)
    holds(lambda: before - guest.resident() < DRIFT, 5.0, "resident does not fall after the boot either")


def test_a_guest_that_goes_back_to_a_snapshot_is_switched_again(stage) -> None:
    agent, guest = stage
    switch_reporting(agent, guest, Observed.ON, SOON)
    guest.snapshot("before")
    switch_reporting(agent, guest, Observed.OFF, SOON)

    guest.revert("before")  # when it was on, within the same boot
    now = agent.report().at
    found = wait_for(lambda: read_by_agent(agent, guest, now), SOON, "the guest to be read")
    assert found.observation.guest_kernel.boot_id == guest.boot_id
    wait_for(lambda: reporting(agent, guest) is Observed.OFF, SOON, "the wish to be carried out again")
    before = use_and_free(guest)
    holds(lambda: before - guest.resident() < DRIFT, 5.0, "resident does not fall after the snapshot either")


@pytest.mark.parametrize("jump", ["+3 days", "-6 days"])
def test_a_guest_whose_clock_jumps_is_read_as_before(stage, jump) -> None:
    agent, guest = stage
    switch_reporting(agent, guest, Observed.OFF, SOON)
    now = agent.report().at
    guest.sh(f"date -s '{jump}'")
    found = wait_for(lambda: read_by_agent(agent, guest, now), SOON, "the guest to be read")
    assert found.observation.gaps == ()
    assert found.observation.guest.at >= now  # by the host's clock
    assert reporting(agent, guest) is Observed.OFF


def test_its_agent_may_be_stopped_and_started(stage) -> None:
    agent, guest = stage
    guest.sh("systemctl stop qemu-guest-agent")

    def told() -> bool:
        domain = agent.domain(guest.name)
        return any(gap.reason is GapReason.UNSUPPORTED and "agent" in gap.detail for gap in domain.observation.gaps)

    wait_for(told, SOON, "the silence to be told")
    guest.sh("systemctl start qemu-guest-agent")
    now = agent.report().at
    wait_for(lambda: read_by_agent(agent, guest, now), SOON, "the guest to be read again")


def test_page_cache_comes_back_once_the_guest_has_an_agent_that_can(stage) -> None:
    agent, guest = stage
    switch_reporting(agent, guest, Observed.ON, SOON)
    refused = agent.memhint("reclaim", guest.name, check=False)
    assert refused.returncode == 5
    assert "guest-reclaim-memory" in refused.stderr

    with memhints_agent(guest):
        comes_back(agent, guest)


@contextmanager
def memhints_agent(guest: Guest) -> Iterator[None]:
    """It runs in place of the distribution's."""
    again = "systemctl daemon-reload && systemctl restart qemu-guest-agent"
    guest.sh(f"mv {AGENT_DROP_IN}.off {AGENT_DROP_IN} && {again}")
    try:
        yield
    finally:
        guest.sh(f"mv {AGENT_DROP_IN} {AGENT_DROP_IN}.off && {again}")
        guest.wait_agent()


def comes_back(agent: AgentProcess, guest: Guest) -> None:
    wait_for(
        lambda: lever_of(agent.domain(guest.name), LeverName.CACHE).observed is Observed.OFF,
        SOON,
        "the new agent to be known",
    )
    guest.sh(f"head -c {FILE} /dev/vda > /root/file && sync && cat /root/file > /dev/null")
    cached = guest.meminfo()["Cached"]
    assert cached >= FILE
    resident = guest.resident()
    done = json.loads(agent.memhint("reclaim", guest.name, "--json").stdout)
    assert done["state"] == "done"
    assert cached - guest.meminfo()["Cached"] >= 0.8 * FILE
    wait_for(lambda: resident - guest.resident() >= 0.8 * FILE, SOON, "the page cache's memory to come back")


def test_stopping_memhint_leaves_the_guest_as_it_was(stage) -> None:
    agent, guest = stage
    switch_reporting(agent, guest, Observed.OFF, SOON)
    assert agent.stop() == 0
    inside = guest.meminfo()
    assert (inside["page_reporting_order"], inside["balloon"]) == ("9", True)
    assert agent.store().marks.all() == ()
    assert guest.sh("systemctl is-system-running || true").strip() == "running"
    agent.start()  # whatever test comes after this one
