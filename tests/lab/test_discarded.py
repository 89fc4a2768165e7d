"""What guests say they reported, against what QEMU discarded: exact when true, and QEMU unharmed when guests go wild.

That `nr_free_reported` equals a walk of /proc/kpageflags at idle, in the middle of a drain that was stopped, and after
reallocation is shown where the kernel is tested: kernel/tests/test_guest.py. A kexec in mid-report is not: the guests'
kernel has none, and its own reboot stands for it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import libvirt
import libvirt_qemu
import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.errors import LabError
from lab.sizes import GIB, MIB
from memhint.objects.discarded import Agreement, BalloonReporting
from memhint.objects.domain import DomainObservation
from memhint.objects.gap import GapReason
from memhint.objects.guest import GuestSource
from memhint.objects.report import DomainReport
from memhint.virt.balloon_reporting import parse_balloon_reporting
from tests.lab.watch import named

SIZE = 448 * MIB
WORK = 256 * MIB
SLACK = 96 * MIB  # what QEMU's own memory may move by: translated code, buffers
LIE = 2048  # MiB
DRIVER = "/sys/bus/virtio/drivers/virtio_balloon"
# The shorter a conversation may be, the sooner two counts are compared; an emulated guest may take two seconds for one.
ALLOWED = {"dedup": {"allow_monitor_commands": True}, "guest": {"interval": 1, "conversation_timeout": 4}}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Guests with all pieces patched, one with stock QEMU, and one whose stock kernel lets devices be unplugged."""
    with Lab(guests=0, budget=4 * GIB, kernel="6.12-memhint", agent="memhint", emulator="memhint") as lab:
        stock = {"name": "stock", "emulator": "stock"}
        plug = {"name": "plug", "kernel": "6.12", "agent": "stock"}
        lab.hosts[0].add_guests([{"memory": SIZE, **one} for one in ({"name": "all"}, {"name": "wild"}, stock, plug)])
        yield lab


@pytest.fixture(scope="module")
def without_leave(lab: Lab) -> tuple[DomainObservation, bool]:
    """What memhint sees of a guest while it may not ask QEMU's monitor, and whether it did: before anybody does."""
    guest = lab.hosts[0].guest("all")
    with AgentProcess(lab.hosts[0], {"guest": {"interval": 1}}) as agent:
        wait_for(lambda: seen(agent, "all").observation.guest_kernel is not None, 60.0, "the guests to be asked")
        return seen(agent, "all").observation, tainted_by_monitor(guest)


@pytest.fixture(scope="module")
def agent(lab: Lab, without_leave: object) -> Iterator[AgentProcess]:
    """memhint, allowed to speak to QEMU's monitor."""
    with AgentProcess(lab.hosts[0], ALLOWED) as agent:
        yield agent


def qmp(guest: Guest, command: str, **arguments: object) -> dict[str, Any]:
    """QEMU's whole answer."""
    request = json.dumps({"execute": command, "arguments": arguments})
    return dict(json.loads(libvirt_qemu.qemuMonitorCommand(guest.domain(), request, 0)))


def counters(guest: Guest) -> BalloonReporting:
    """QEMU's counters; the parser has seen that the parts make up the sum."""
    return parse_balloon_reporting(qmp(guest, "query-balloon-reporting")["return"], 0.0)


def asked(guest: Guest, command: str, **arguments: object) -> dict[str, Any]:
    """The guest agent's answer."""
    request = json.dumps({"execute": command, "arguments": arguments})
    return dict(json.loads(libvirt_qemu.qemuAgentCommand(guest.domain(), request, 60, 0))["return"])


def at_rest(guest: Guest) -> tuple[dict[str, Any], BalloonReporting] | None:
    """What both sides say while nothing is reported, None while something is."""
    before, first = counters(guest), asked(guest, "guest-get-page-reporting")
    told, after = asked(guest, "guest-get-page-reporting"), counters(guest)
    moved = before.reported != after.reported or first["total-reported"] != told["total-reported"]
    return None if moved or told["unreported"] > 8 * MIB else (told, after)


def counted_alike(guest: Guest) -> tuple[dict[str, Any], BalloonReporting] | None:
    """The same, once the guest has counted its last batch: it does after the host has answered it."""
    found = at_rest(guest)
    return found if found is not None and found[0]["total-reported"] == found[1].discarded.bytes else None


def seen(agent: AgentProcess, name: str) -> DomainReport:
    return named(agent.report())[name]


def compared(agent: AgentProcess, name: str, agreement: Agreement) -> DomainReport:
    """The first report in which the comparison has come out so."""

    def look() -> DomainReport | None:
        found = seen(agent, name)
        check, guest = found.observation.reporting_check, found.observation.guest
        if guest is None or guest.source is not GuestSource.KERNEL:
            return None  # its word came late, and what the balloon tells has no count to compare
        return found if check is not None and check.at is not None and check.agreement is agreement else None

    found = wait_for(look, 120.0, f"the claim of {name} to be found: {agreement}")
    assert found is not None
    return found


def tainted_by_monitor(guest: Guest) -> bool:
    return "custom-monitor" in (guest.host.state_dir / "log" / "qemu" / f"{guest.name}.log").read_text()


def test_without_leave_no_monitor_is_asked(without_leave: tuple[DomainObservation, bool]) -> None:
    found, tainted = without_leave
    assert found.balloon_reporting is None
    assert found.reporting_check is None
    assert not tainted


def test_at_idle_the_host_has_discarded_exactly_what_the_guest_reported(lab: Lab, agent: AgentProcess) -> None:
    guest = lab.hosts[0].guest("all")
    guest.alloc("work", WORK, content="random")
    resident, before = guest.resident(), counters(guest).discarded.bytes
    guest.free("work")
    wait_for(lambda: counters(guest).discarded.bytes - before >= 0.9 * WORK, 60.0, "what was freed to be discarded")
    told, host = wait_for(lambda: counted_alike(guest), 60.0, "everything free to be reported, and counted by both")
    assert told["total-reported"] == host.discarded.bytes == host.reported.bytes
    assert host.skipped == 0
    assert host.enabled
    assert host.negotiated
    assert resident - guest.resident() >= WORK - SLACK
    found = compared(agent, "all", Agreement.AGREES).observation
    assert found.guest is not None
    assert found.guest.clamped == ()

    def both() -> bool:
        now = seen(agent, "all").observation
        if now.guest is None or now.balloon_reporting is None:
            return False  # one of them came late
        return now.guest.lifetime_reported == now.balloon_reporting.discarded.bytes

    wait_for(both, 120.0, "a report with both counts of one moment without reports")
    assert tainted_by_monitor(guest)


def test_a_stock_qemu_has_no_counters_and_that_is_no_error(lab: Lab, agent: AgentProcess) -> None:
    def gaps() -> list[tuple[str, GapReason]]:
        return [(gap.what, gap.reason) for gap in seen(agent, "stock").observation.gaps]

    wait_for(lambda: gaps() == [("balloon reporting", GapReason.UNSUPPORTED)], 60.0, "that gap to show, and no other")
    found = seen(agent, "stock")
    assert found.observation.reporting_check is None
    assert found.observation.guest is not None  # everything else goes on
    assert found.reclaimable[0].at_most is not None


def test_a_guest_that_lies_is_flagged_and_not_believed(lab: Lab, agent: AgentProcess) -> None:
    guest = lab.hosts[0].guest("all")
    honest = compared(agent, "all", Agreement.AGREES)
    assert honest.reclaimable[0].at_most is not None
    assert honest.observation.reporting_check is not None
    # The host's first reading is older than the guest's: what was discarded between the two hides as much of a lie.
    hidden = max(0, honest.observation.reporting_check.discarded - honest.observation.reporting_check.claimed)
    truth = counters(guest).discarded.bytes
    guest.work(f"lie {LIE}")
    try:
        liar = compared(agent, "all", Agreement.OVERCLAIMS)
        check, word = liar.observation.reporting_check, liar.observation.guest
        assert check is not None
        assert check.claimed - check.discarded >= (LIE - 64) * MIB - hidden
        assert check.believed == check.discarded
        assert word is not None
        assert word.lifetime_reported is not None
        # What is believed grows by no more than the host counts, from a first claim that the same gap makes too high.
        assert word.lifetime_reported <= counters(guest).discarded.bytes + hidden < truth + LIE * MIB
        assert "lifetime_reported" in word.clamped
        assert liar.reclaimable[0].at_most is None
        assert "all: overclaims" in agent.memhint("domains").stdout
    finally:
        guest.work("lie 0")
    compared(agent, "all", Agreement.AGREES)  # its count went back: a new pair, and now it tells the truth


class Monotone:
    """Looks at the counters again and again; they may only grow."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.last = counters(guest)

    def look(self) -> BalloonReporting:
        now = counters(self.guest)
        for name in ("reported", "discarded", "skipped_invalid", "failed"):
            assert getattr(now, name).bytes >= getattr(self.last, name).bytes, name
            assert getattr(now, name).ranges >= getattr(self.last, name).ranges, name
        assert self.guest.resident() <= SIZE + 2 * SLACK
        self.last = now
        return now


@contextmanager
def flooding(guest: Guest) -> Iterator[threading.Lock]:
    """The guest allocates and frees all the time, so that it always reports; who holds the lock comes after a free."""
    stop, turn = threading.Event(), threading.Lock()

    def flood() -> None:
        while not stop.is_set():
            with turn:
                for request in ("alloc flood 64 random", "free flood"):
                    with suppress(LabError):  # it boots just now, or was late: what it holds is freed all the same
                        guest.work(request, deadline=10.0)
            stop.wait(0.05)  # the guest serves one request at a time: others want one, too

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    try:
        yield turn
    finally:
        stop.set()
        thread.join(60.0)
        assert not thread.is_alive()


def report_at_once(guest: Guest) -> None:
    asked(guest, "guest-set-page-reporting", order=0, **{"delay-ms": 1})


def balloon_device(guest: Guest) -> str:
    """The name of the device in the guest's own words, such as virtio3."""
    for number in range(16):
        try:
            guest.work(f"read {DRIVER}/virtio{number}/status")
        except LabError:
            continue
        return f"virtio{number}"
    raise LabError(f"{guest.name} has no balloon")


def unbind(guest: Guest) -> None:
    guest.work(f"write {DRIVER}/unbind {balloon_device(guest)}")


def reboot(guest: Guest) -> None:
    """The guest's own: its kernel stops the devices and starts anew."""
    with suppress(LabError):  # the reset may overtake the answer; wait_rebooted tells
        guest.work("reboot", deadline=10.0)


def reset(guest: Guest) -> None:
    """From outside, as a power cycle: the device is reset with whatever lies in its queues."""
    guest.domain().reset()


@pytest.mark.parametrize("disturb", [unbind, reboot, reset])
def test_a_flood_of_reports_that_is_cut_off_leaves_the_counters_right(
    lab: Lab, disturb: Callable[[Guest], None]
) -> None:
    guest = lab.hosts[0].guest("wild")
    wait_for(lambda: at_rest(guest), 60.0, "everything free to be reported")
    pid, resident, watch = guest.pid(), guest.resident(), Monotone(guest)
    begin = watch.look().reported
    with flooding(guest) as turn:
        report_at_once(guest)
        flood = wait_for(lambda: watch.look().reported.ranges > begin.ranges + 500, 120.0, "the flood to reach QEMU")
        assert flood
        with turn:
            disturb(guest)
        for _ in range(20):
            watch.look()
    if disturb is not unbind:
        guest.wait_rebooted()
    assert guest.pid() == pid  # the same process: neither crashed nor started anew
    end = watch.look()
    assert end.failed.bytes == end.skipped_invalid.bytes == 0
    if disturb is unbind:
        assert not end.negotiated
        reboot(guest)
        guest.wait_rebooted()
    wait_for(lambda: at_rest(guest), 60.0, "everything free to be reported")
    assert watch.look().negotiated
    assert guest.resident() <= resident + SLACK


def test_the_balloon_may_be_unplugged_in_the_middle_of_a_flood(lab: Lab) -> None:
    guest = lab.hosts[0].guest("plug")
    pid, watch = guest.pid(), Monotone(guest)
    begin = watch.look().reported
    with flooding(guest):
        wait_for(lambda: watch.look().reported.ranges > begin.ranges + 16, 120.0, "the flood to reach QEMU")
        assert "error" not in qmp(guest, "device_del", id="balloon0")
        wait_for(
            lambda: qmp(guest, "query-balloon-reporting").get("error", {}).get("class") == "DeviceNotActive",
            60.0,
            "the balloon to be gone",
        )
    assert guest.pid() == pid
    assert guest.domain().state()[0] == libvirt.VIR_DOMAIN_RUNNING
    guest.alloc("work", WORK, content="random")  # memory that had been discarded is there again
    guest.free("work")
    assert guest.resident() <= SIZE + 2 * SLACK
    assert "error" not in qmp(
        guest, "device_add", driver="virtio-balloon-pci", id="balloon0", **{"free-page-reporting": True}
    )
    wait_for(lambda: counters(guest).negotiated, 60.0, "the guest to take the new balloon")
    wait_for(lambda: counters(guest).discarded.bytes >= 0.8 * WORK, 60.0, "the new balloon to count from 0")
