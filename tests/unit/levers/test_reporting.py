"""The reporting lever on guests with stock kernels: consent first, then the kernel's own switch, then a look back."""

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.guest.capabilities import read_capabilities
from memhint.guest.errors import GuestCommandFailed, GuestTimeout
from memhint.guest.protocol import GuestAgent
from memhint.guest.reporting_knob import read_guest_kernel
from memhint.levers.reporting import DRIVER_KNOB, ORDER_KNOB, TRAVELLING, ReportingLever, ReportingTarget
from memhint.levers.reporting_flush import AGAIN
from memhint.levers.reporting_next_boot import NEXT_BOOT_KNOB
from memhint.levers.reporting_tuning import DELAY_KNOB
from memhint.objects.domain import DomainState
from memhint.objects.lever import Observed
from memhint.objects.ownership import Mark
from memhint.objects.policy import Mode, Origin, effective
from memhint.objects.tuning import Tuning
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.errors import StoreError
from memhint.virt.errors import LibvirtUnavailable
from tests.unit import builders
from tests.unit.guest.fake_agent import FakeAgent
from tests.unit.levers.fakes import FakeNextBoot

ORDER = "/sys/module/page_reporting/parameters/page_reporting_order"
DRIVER = "/sys/bus/virtio/drivers/virtio_balloon"
BOOT = "11111111-2222-3333-4444-555555555555"


def libvirtd_is_away(*_: object) -> None:
    """In place of any call."""
    raise LibvirtUnavailable("libvirtd is away")


class Guest:
    """A guest with a stock kernel of some version, and a lever that reaches it."""

    def __init__(self, release: str, **policy: str) -> None:
        self.files = {
            ORDER: "9\n",
            "/proc/sys/kernel/random/boot_id": BOOT + "\n",
            "/sys/bus/virtio/devices/virtio0/device": "0x0003\n",
            "/sys/bus/virtio/devices/virtio1/device": "0x0005\n",
            "/sys/bus/virtio/devices/virtio1/features": "0000010000\n",
            f"{DRIVER}/virtio1/device": "0x0005\n",
            f"{DRIVER}/unbind": "",
            f"{DRIVER}/bind": "",
        }
        self.agent = FakeAgent(files=self.files, release=release, on_write=self.on_write)
        self.policy = effective({Origin.OPERATOR: policy})
        self.next_boot = FakeNextBoot("on")
        self.ledger = MemoryLedger()
        self.lever = self.new_lever()
        self.facts = builders.facts()
        self.state = DomainState.RUNNING
        self.actual = self.facts.memory

    def new_lever(self) -> ReportingLever:
        """Of another life of the agent."""
        return ReportingLever(self.ledger, self.read, 9, lambda: 1.0)

    def starts_without(self) -> None:
        """Its VM runs without the feature, by its definition."""
        self.facts, self.next_boot.value = replace(self.facts, reporting_offered=False), None

    def on_write(self, path: str, text: str) -> None:
        if path == f"{DRIVER}/unbind":
            del self.files[f"{DRIVER}/virtio1/device"]
        if path == f"{DRIVER}/bind":
            self.files[f"{DRIVER}/virtio1/device"] = "0x0005\n"

    def conversation(self) -> GuestAgent:
        return GuestAgent(self.agent, clock=time.monotonic)

    def read(self, agent: GuestAgent):
        return read_guest_kernel(agent, 1.0, read_capabilities(agent))

    def target(self, agent: bool = True) -> ReportingTarget:
        kernel = self.read(self.conversation()) if agent else None
        domain = builders.domain_observation(
            facts=self.facts, guest_kernel=kernel, balloon_actual=self.actual, state=self.state
        )
        return ReportingTarget(domain, self.policy, self.conversation() if agent else None, self.next_boot)

    def pull(self, desired: Mode, *, dry_run: bool = False, agent: bool = True):
        return self.lever.pull(self.target(agent), desired, dry_run=dry_run)

    def observed(self) -> Observed:
        return self.lever.read(self.target().domain)

    def written(self) -> list[object]:
        return [arguments for command, arguments in self.agent.calls if command == "guest-file-write"]


def test_61_is_switched_by_its_order_and_back() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert guest.files[ORDER].strip() == "11"
    assert guest.observed() is Observed.OFF
    assert guest.pull(Mode.OFF).answer is Answer.UNCHANGED
    on = guest.pull(Mode.ON)
    assert (on.answer, on.reason) == (Answer.APPLIED, Reason.REARM)
    assert guest.files[ORDER].strip() == "9"
    assert guest.ledger.all() == ()


def test_switching_on_again_restores_the_order_that_was_there() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.files[ORDER] = "7\n"
    guest.pull(Mode.OFF)
    guest.pull(Mode.ON)
    assert guest.files[ORDER].strip() == "7"


def test_612_is_switched_by_its_driver_and_only_with_the_second_consent() -> None:
    guest = Guest("6.12.117+deb12-cloud-amd64", guest_actions="allow")
    refused = guest.pull(Mode.OFF)
    assert (refused.answer, refused.reason) == (Answer.UNSUPPORTED, Reason.UNBIND_OPT_IN)
    assert guest.written() == []
    guest = Guest("6.12.117+deb12-cloud-amd64", guest_actions="allow", guest_unbind="allow")
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert guest.observed() is Observed.OFF
    assert guest.pull(Mode.ON).answer is Answer.APPLIED
    assert guest.observed() is Observed.ON
    assert guest.ledger.all() == ()


@pytest.mark.parametrize("release", ["6.1.0-50-cloud-amd64", "6.12.117+deb12-cloud-amd64"])
@pytest.mark.parametrize("desired", [Mode.OFF])
def test_without_consent_the_guest_is_untouched(release: str, desired: Mode) -> None:
    guest = Guest(release, guest_unbind="allow")
    refused = guest.pull(desired)
    assert (refused.answer, refused.reason) == (Answer.REFUSED, Reason.CONSENT)
    assert guest.written() == []
    assert guest.ledger.all() == ()


def test_an_inflated_balloon_is_not_unbound() -> None:
    guest = Guest("6.12.117+deb12-cloud-amd64", guest_actions="allow", guest_unbind="allow")
    guest.actual = 3 * GIB
    assert guest.pull(Mode.OFF).reason is Reason.BALLOON_INFLATED
    guest.actual = None
    assert guest.pull(Mode.OFF).reason is Reason.BALLOON_INFLATED
    assert guest.written() == []


def test_a_dry_run_says_what_it_would_do_and_does_nothing() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    planned = guest.pull(Mode.OFF, dry_run=True)
    assert planned.answer is Answer.PLANNED
    assert "page_reporting_order" in planned.detail
    assert guest.written() == []
    assert guest.ledger.all() == ()


def test_the_mark_is_kept_before_the_guest_is_changed() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.agent.hang_at = {"guest-file-write"}
    verdict = guest.pull(Mode.OFF)
    assert (verdict.answer, verdict.reason) == (Answer.FAILED, Reason.GUEST_TIMEOUT)
    assert guest.ledger.get(builders.WEB, ORDER_KNOB).before == "9"


def test_auto_undoes_what_was_done_and_touches_nothing_else() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    assert guest.pull(Mode.AUTO).answer is Answer.UNCHANGED
    guest.pull(Mode.OFF)
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.files[ORDER].strip() == "9"
    guest.files[ORDER] = "11\n"  # somebody in the guest
    assert guest.pull(Mode.AUTO).answer is Answer.UNCHANGED
    assert guest.files[ORDER] == "11\n"


def test_what_was_set_before_the_boot_id_was_known_is_put_back() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    boot = guest.files.pop("/proc/sys/kernel/random/boot_id")
    guest.pull(Mode.OFF)
    assert guest.files[ORDER].strip() == "11"
    guest.files["/proc/sys/kernel/random/boot_id"] = boot
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (guest.files[ORDER].strip(), guest.ledger.all()) == ("9", ())


def test_what_was_there_before_memhint_came_is_remembered_when_the_boot_id_becomes_known() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.files[ORDER] = "7\n"
    boot = guest.files.pop("/proc/sys/kernel/random/boot_id")
    guest.pull(Mode.OFF)
    guest.files["/proc/sys/kernel/random/boot_id"] = boot
    guest.lever._mark(builders.WEB, ORDER_KNOB, "11", "10", guest.target().domain.guest_kernel)
    mark = guest.ledger.get(builders.WEB, ORDER_KNOB)
    assert mark is not None
    assert (mark.before, mark.after, mark.instance) == ("7", "10", BOOT)


@pytest.mark.parametrize("shown", ["-1", "4294967295"])
def test_an_order_that_cannot_be_written_again_is_none_to_go_back_to(shown: str) -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.files[ORDER] = f"{shown}\n"
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (guest.files[ORDER].strip(), guest.ledger.all()) == ("9", ())
    guest.files[ORDER] = f"{shown}\n"
    guest.pull(Mode.OFF)
    assert guest.pull(Mode.ON).answer is Answer.APPLIED
    assert guest.files[ORDER].strip() == "9"


def test_a_rebooted_guest_has_nothing_to_undo() -> None:
    guest = Guest("6.12.117+deb12-cloud-amd64", guest_actions="allow", guest_unbind="allow")
    guest.pull(Mode.OFF)
    guest.files["/proc/sys/kernel/random/boot_id"] = BOOT.replace("1", "9") + "\n"
    before = len(guest.written())
    assert guest.pull(Mode.AUTO).answer is Answer.UNCHANGED
    assert len(guest.written()) == before
    assert guest.ledger.get(builders.WEB, DRIVER_KNOB) is None


def test_a_guest_that_takes_the_write_and_does_not_change_has_failed() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.agent.on_write = lambda path, text: guest.files.__setitem__(ORDER, "9\n")
    assert guest.pull(Mode.OFF).reason is Reason.GUEST_ANSWER


def test_a_kernel_that_refuses_the_order_has_failed() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.agent.refused_writes = {ORDER}
    assert guest.pull(Mode.OFF).answer is Answer.FAILED


def test_a_kernel_that_has_refused_the_order_is_switched_by_its_driver_as_later_ones_are() -> None:
    """As distributions have it, which bring changes of later kernels back to an older one."""
    guest = Guest("5.14.0-427.el9", guest_actions="allow")
    guest.agent.refused_writes = {ORDER}
    assert guest.pull(Mode.OFF).reason is Reason.GUEST_ANSWER
    assert guest.ledger.all() == (), "nothing was changed"
    written = len(guest.written())
    assert guest.pull(Mode.OFF).reason is Reason.UNBIND_OPT_IN
    assert len(guest.written()) == written
    guest.policy = effective({Origin.OPERATOR: {"guest_actions": "allow", "guest_unbind": "allow"}})
    assert "unbind" in guest.pull(Mode.OFF, dry_run=True).detail
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert [mark.knob for mark in guest.ledger.all()] == [DRIVER_KNOB]
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    guest.agent.release, guest.agent.refused_writes = "5.14.0-70.el9", set()
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert guest.files[ORDER].strip() == "11", "it was another kernel that refused"


def test_a_guest_that_may_not_write_the_order_is_not_taken_for_a_kernel_that_refuses_it() -> None:
    guest = Guest("5.14.0-427.el9", guest_actions="allow")
    target = guest.target()
    shown = guest.files.pop(ORDER)  # as one that cannot be opened
    assert guest.lever.pull(target, Mode.OFF, dry_run=False).reason is Reason.GUEST_ANSWER
    guest.files[ORDER] = shown
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert guest.files[ORDER].strip() == "11"


def test_an_order_that_is_refused_on_the_way_back_stays_marked_as_it_was() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.pull(Mode.OFF)
    marks = guest.ledger.all()
    guest.agent.refused_writes = {ORDER}
    assert guest.pull(Mode.ON).answer is Answer.FAILED
    assert guest.ledger.all() == marks
    guest.agent.refused_writes = set()
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (guest.files[ORDER].strip(), guest.ledger.all()) == ("9", ())


def test_a_silent_guest_is_unknown_and_unsupported() -> None:
    guest = Guest("6.1.0", guest_actions="allow")
    verdict = guest.pull(Mode.OFF, agent=False)
    assert (verdict.answer, verdict.reason) == (Answer.UNSUPPORTED, Reason.NO_GUEST_AGENT)
    assert guest.lever.read(guest.target(agent=False).domain) is Observed.UNKNOWN


def test_a_guest_kernel_without_reporting_is_unsupported_not_off() -> None:
    guest = Guest("5.4.0", guest_actions="allow")
    del guest.files[ORDER]
    assert guest.observed() is Observed.UNSUPPORTED
    assert guest.pull(Mode.OFF).reason is Reason.KERNEL


def test_an_order_that_nobody_chose_is_not_off() -> None:
    guest = Guest("6.12.0")
    guest.files[ORDER] = "4294967295\n"
    assert guest.observed() is Observed.ON


def test_a_vm_started_without_the_feature_gets_it_at_its_next_start_and_loses_it_again() -> None:
    guest = Guest("6.12.0")
    guest.starts_without()
    assert guest.pull(Mode.ON, dry_run=True).answer is Answer.PLANNED
    assert guest.next_boot.value is None
    assert guest.pull(Mode.ON).reason is Reason.NEXT_BOOT
    assert guest.next_boot.value == "on"
    assert guest.ledger.get(builders.WEB, NEXT_BOOT_KNOB) is not None
    assert guest.pull(Mode.ON).reason is Reason.NEXT_BOOT
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.next_boot.value is None


def restarted_with_the_feature() -> Guest:
    """Defined by memhint, and started since."""
    guest = Guest("6.12.0")
    guest.starts_without()
    guest.pull(Mode.ON)
    guest.facts = replace(guest.facts, reporting_offered=True)
    return guest


@pytest.mark.parametrize("state", [DomainState.RUNNING, DomainState.PAUSED])
def test_a_vm_that_runs_with_the_feature_is_to_start_with_it_again_after_an_agent_stopped(state: DomainState) -> None:
    guest = restarted_with_the_feature()
    assert guest.pull(Mode.ON).answer is Answer.UNCHANGED
    guest.pull(Mode.AUTO)  # as an agent does that stops
    assert (guest.next_boot.value, guest.ledger.all()) == (None, ())
    guest.lever, guest.state = guest.new_lever(), state
    planned = guest.pull(Mode.ON, dry_run=True)
    assert (guest.next_boot.value, guest.ledger.all()) == (None, ())
    done = guest.pull(Mode.ON)
    assert guest.next_boot.value == "on"
    assert guest.ledger.get(builders.WEB, NEXT_BOOT_KNOB).before == ""
    if state is DomainState.RUNNING:
        assert (planned.answer, done.answer) == (Answer.PLANNED, Answer.APPLIED)
    else:
        assert planned.reason is done.reason is Reason.NOT_RUNNING
    guest.pull(Mode.AUTO)
    assert (guest.next_boot.value, guest.ledger.all()) == (None, ())
    guest.pull(Mode.ON)
    assert guest.next_boot.value == "on"


def test_a_definition_that_has_it_is_looked_at_once_until_it_may_have_changed() -> None:
    guest = restarted_with_the_feature()
    guest.next_boot.looks = 0
    for _ in range(3):
        assert guest.pull(Mode.ON).answer is Answer.UNCHANGED
    assert guest.next_boot.looks == 1
    guest.next_boot.value = None  # by its owner, whom the wish overrules as it does where the VM runs without it
    for uuid in ("", builders.WEB):
        guest.lever.redefined(uuid)
        guest.pull(Mode.ON)
        guest.pull(Mode.ON)
    assert (guest.next_boot.looks, guest.next_boot.value) == (3, "on")
    guest.lever.retain(())
    guest.pull(Mode.ON)
    assert guest.next_boot.looks == 4


def test_a_definition_that_cannot_be_looked_at_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = restarted_with_the_feature()
    guest.next_boot.value = None

    with monkeypatch.context() as patch:
        patch.setattr(FakeNextBoot, "reporting", libvirtd_is_away)
        verdict = guest.pull(Mode.ON)
        assert (verdict.answer, verdict.reason) == (Answer.FAILED, Reason.HYPERVISOR)
    assert guest.pull(Mode.ON).answer is Answer.APPLIED
    assert guest.next_boot.value == "on"


def test_a_definition_is_looked_at_again_where_its_mark_could_not_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = restarted_with_the_feature()
    guest.pull(Mode.AUTO)

    def away(self, mark: Mark) -> None:
        raise StoreError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLedger, "put", away)
        with pytest.raises(StoreError):
            guest.pull(Mode.ON)
    assert guest.next_boot.value is None
    guest.pull(Mode.ON)
    assert guest.next_boot.value == "on"


def test_a_change_of_the_definition_meanwhile_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = restarted_with_the_feature()
    read = FakeNextBoot.reporting

    def changed(self) -> str | None:
        value = read(self)
        self.value = None
        guest.lever.redefined(builders.WEB)
        return value

    with monkeypatch.context() as patch:
        patch.setattr(FakeNextBoot, "reporting", changed)
        guest.pull(Mode.ON)
    guest.pull(Mode.ON)
    assert guest.next_boot.value == "on"


def test_a_transient_vm_that_runs_with_the_feature_has_no_definition_to_look_at() -> None:
    guest = Guest("6.12.0")
    guest.next_boot.value = None
    guest.facts = replace(guest.facts, persistent=False)
    assert guest.pull(Mode.ON).answer is Answer.UNCHANGED
    assert (guest.next_boot.looks, guest.next_boot.value, guest.ledger.all()) == (0, None, ())


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("state", [DomainState.RUNNING, DomainState.SHUTOFF])
def test_a_vm_that_is_to_have_it_off_does_not_keep_it_for_its_next_start(state: DomainState, restarted: bool) -> None:
    """Nothing else keeps it from reporting then, where memhint may do nothing in the guest."""
    guest = Guest("6.12.0")
    guest.starts_without()
    guest.pull(Mode.ON)
    guest.facts = replace(guest.facts, reporting_offered=restarted)
    guest.state = state
    before = guest.pull(Mode.OFF, dry_run=True)
    assert (guest.next_boot.value, len(guest.ledger.all())) == ("on", 1)
    verdict = guest.pull(Mode.OFF)
    if state is DomainState.SHUTOFF:
        assert before.reason is verdict.reason is Reason.NOT_RUNNING
    elif restarted:
        assert before.reason is verdict.reason is Reason.CONSENT
    else:
        assert (before.answer, verdict.answer) == (Answer.PLANNED, Answer.APPLIED)
    assert (guest.next_boot.value, guest.ledger.all()) == (None, ())


def test_a_definition_that_cannot_be_put_back_is_said_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest("6.12.0")
    guest.starts_without()
    guest.pull(Mode.ON)

    with monkeypatch.context() as patch:
        patch.setattr(FakeNextBoot, "set_reporting", libvirtd_is_away)
        verdict = guest.pull(Mode.OFF)
        assert (verdict.answer, verdict.reason) == (Answer.FAILED, Reason.HYPERVISOR)
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert guest.next_boot.value is None
    assert guest.pull(Mode.OFF).reason is Reason.DEVICE


def test_the_next_boot_of_a_transient_domain_is_unsupported() -> None:
    guest = Guest("6.12.0")
    guest.facts = replace(guest.facts, reporting_offered=False, persistent=False)
    assert guest.pull(Mode.ON).answer is Answer.UNSUPPORTED


def test_a_stopped_vm_is_told_so() -> None:
    guest = Guest("6.12.0", guest_actions="allow")
    guest.state = DomainState.SHUTOFF
    assert guest.pull(Mode.OFF).reason is Reason.NOT_RUNNING


def test_a_guest_that_had_switched_itself_off_is_so_again_after_the_undo() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.files[ORDER] = "11\n"
    assert guest.pull(Mode.ON).answer is Answer.APPLIED
    assert guest.files[ORDER].strip() == "9"
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.files[ORDER].strip() == "11"
    guest = Guest("6.12.0", guest_actions="allow")
    del guest.files[f"{DRIVER}/virtio1/device"]
    assert guest.pull(Mode.ON).answer is Answer.APPLIED
    assert guest.observed() is Observed.ON
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.observed() is Observed.OFF


@pytest.mark.parametrize("known", [False, True])
def test_nothing_is_put_back_in_another_boot_than_that_which_was_changed(known: bool) -> None:
    """What is known of the guest may be from before it booted, or nothing."""
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.pull(Mode.OFF)
    before = guest.target()
    guest.files["/proc/sys/kernel/random/boot_id"] = BOOT.replace("1", "9") + "\n"
    guest.files[ORDER] = "10\n"
    kernel = before.domain.guest_kernel if known else None
    target = replace(before, domain=replace(before.domain, guest_kernel=kernel), agent=guest.conversation())
    assert guest.lever.pull(target, Mode.AUTO, dry_run=False).answer is Answer.UNCHANGED
    assert guest.files[ORDER].strip() == "10"
    assert guest.ledger.all() == ()


def test_what_the_owner_has_set_since_is_left_so() -> None:
    """Also where a mark that was given back before came along with the VM again."""
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.pull(Mode.OFF)
    guest.files[ORDER] = "5\n"
    assert guest.pull(Mode.AUTO).answer is Answer.UNCHANGED
    assert guest.files[ORDER].strip() == "5"
    assert guest.ledger.all() == ()


def test_what_the_owner_set_between_two_changes_is_what_goes_back() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.pull(Mode.OFF)
    guest.files[ORDER] = "5\n"
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert guest.files[ORDER].strip() == "11"
    guest.pull(Mode.AUTO)
    assert (guest.files[ORDER].strip(), guest.ledger.all()) == ("5", ())


@pytest.mark.parametrize("theirs", ["off", None])
def test_what_an_operator_defined_between_two_wishes_is_what_goes_back(theirs: str | None) -> None:
    guest = Guest("6.12.0")
    guest.starts_without()
    guest.next_boot.value = "off" if theirs is None else None
    guest.pull(Mode.ON)
    guest.next_boot.value = theirs
    assert guest.pull(Mode.ON).reason is Reason.NEXT_BOOT
    assert guest.next_boot.value == "on"
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (guest.next_boot.value, guest.ledger.all()) == (theirs, ())


def test_a_definition_that_an_operator_changed_since_is_left_and_said_to_be() -> None:
    guest = Guest("6.12.0")
    guest.starts_without()
    guest.pull(Mode.ON)
    guest.next_boot.value = "off"
    left = guest.pull(Mode.AUTO)
    assert (left.answer, left.detail) == (Answer.UNCHANGED, "somebody has set it since, and it is left so")
    assert (guest.next_boot.value, guest.ledger.all()) == ("off", ())


@pytest.mark.parametrize(("defined", "left"), [("on", None), ("off", "off"), (None, None)])
@pytest.mark.parametrize("desired", [Mode.AUTO, Mode.OFF])
def test_a_definition_that_came_with_a_migration_is_put_back_where_it_is_memhint_s_still(
    desired: Mode, defined: str | None, left: str | None
) -> None:
    """None: the VM came without one, or had another one here."""
    guest = Guest("6.12.0")
    guest.starts_without()
    guest.pull(Mode.ON)
    (brought,) = guest.ledger.all()
    after = Guest("6.12.0")
    after.starts_without()
    after.next_boot.value = defined
    after.ledger.put(TRAVELLING[NEXT_BOOT_KNOB](after.target().domain, brought))
    after.pull(desired)
    assert (after.next_boot.value, after.ledger.all()) == (left, ())


def test_every_mark_of_a_vm_is_undone() -> None:
    guest = Guest("6.1.0-50-cloud-amd64", guest_actions="allow")
    guest.pull(Mode.OFF)
    guest.ledger.put(Mark(builders.WEB, NEXT_BOOT_KNOB, "", "on", "", 1.0))
    guest.next_boot.value = "on"
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.ledger.all() == ()
    assert guest.next_boot.value is None
    assert guest.files[ORDER].strip() == "9"


class PatchedGuest(Guest):
    """A guest whose kernel has a switch, and whose agent reaches it."""

    def __init__(self, **policy: str) -> None:
        super().__init__("6.12.117-memhint", **policy)
        self.enabled = True
        self.order, self.delay_ms = 9, 2000
        self.settable = ["enabled", "order", "delay-ms", "flush"]
        self.stubborn = self.too_slow = False
        self.write_fails: BaseException | None = None
        self.tuning = Tuning()
        self.reported: int | None = 1 * GIB  # in its life
        self.changes: list[dict[str, object]] = []
        self.asked: list[str] = []
        stock = self.agent

        def extended(request: str, timeout: int) -> str:
            message = json.loads(request)
            self.asked.append(message["execute"])
            if message["execute"] == "guest-set-page-reporting":
                if self.write_fails is not None:
                    raise self.write_fails
                if self.too_slow:
                    raise GuestTimeout("no answer within 2 s")
                self.changes.append(message["arguments"])
                self.change(**{name.replace("-", "_"): value for name, value in message["arguments"].items()})
                settings = {"enabled": self.enabled, "order": self.order, "delay-ms": self.delay_ms}
                return json.dumps({"return": {**settings, "flushed": 0, "more": False}})
            if message["execute"] == "guest-get-page-reporting":
                return json.dumps({"return": self.told()})
            answer = json.loads(stock(request, timeout))
            if message["execute"] == "guest-info":
                for name in ("guest-get-page-reporting", "guest-set-page-reporting"):
                    answer["return"]["supported_commands"].append({"name": name, "enabled": True})
            return json.dumps(answer)

        self.agent = extended

    def told(self) -> dict[str, object]:
        sizes = {"free": 0, "reportable": 0, "reported": 0, "unreported": 0, "max-order": 10}
        state = {"source": "kernel", "negotiated": True, "settable": self.settable, "enabled": self.enabled}
        return {**sizes, **state, "order": self.order, "delay-ms": self.delay_ms, "zones": [], "more": False}

    def change(
        self, enabled: bool | None = None, order: int | None = None, delay_ms: int | None = None, flush: int = 0
    ) -> None:
        if self.stubborn:
            return
        self.enabled = self.enabled if enabled is None else enabled
        self.order = self.order if order is None else order
        self.delay_ms = self.delay_ms if delay_ms is None else delay_ms

    def target(self, agent: bool = True) -> ReportingTarget:
        target = super().target(agent)
        memory = builders.guest_memory(free=300 * MIB, lifetime_reported=self.reported)
        return replace(target, tuning=self.tuning, domain=replace(target.domain, guest=memory))


def test_a_patched_kernel_is_switched_by_its_own_switch_without_unbinding() -> None:
    guest = PatchedGuest(guest_actions="allow")
    assert guest.observed() is Observed.ON
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert guest.observed() is Observed.OFF
    assert guest.pull(Mode.OFF).answer is Answer.UNCHANGED
    assert guest.pull(Mode.ON).answer is Answer.APPLIED
    assert guest.changes == [{"enabled": False}, {"enabled": True}]
    assert guest.ledger.all() == ()


class Killed(BaseException):
    """The agent ends here."""


class Way:
    """One of the ways to switch a guest, and what can go wrong with the write."""

    def __init__(self, kind: str) -> None:
        self.patched = kind == "enabled"
        consent = {"guest_actions": "allow", "guest_unbind": "allow"}
        release = "6.1.0-50-cloud-amd64" if kind == "order" else "6.12.117+deb12-cloud-amd64"
        self.guest = PatchedGuest(**consent) if self.patched else Guest(release, **consent)
        self.path = {"order": ORDER, "driver": f"{DRIVER}/bind", "enabled": ""}[kind]

    def fails(self, how: Exception | Killed | None) -> None:
        """From now on writes end so, and change nothing; None: they work again."""
        guest = self.guest
        if isinstance(guest, PatchedGuest):
            guest.write_fails = how
            return
        guest.agent.refused_writes = {self.path, f"{DRIVER}/unbind"} if isinstance(how, GuestCommandFailed) else set()
        guest.agent.mangle = None if how is None or isinstance(how, GuestCommandFailed) else self._ends(how)

    def _ends(self, how: Exception | Killed) -> Callable[[str, str], str]:
        def mangle(command: str, answer: str) -> str:
            if command == "guest-file-open" and self.guest.agent.paths()[-1] in (self.path, f"{DRIVER}/unbind"):
                mode = self.guest.agent.calls[-1][1]["mode"]
                if mode != "r":
                    raise how
            return answer

        return mangle

    def pull(self, desired: Mode) -> Verdict | None:
        try:
            return self.guest.pull(desired)
        except Killed:
            self.guest.lever = ReportingLever(self.guest.ledger, self.guest.read, 9, lambda: 2.0)
            return None


FAULTS = {"refused": GuestCommandFailed("EINVAL"), "late": GuestTimeout("no answer"), "killed": Killed()}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["order", "driver", "enabled"])
def test_what_was_not_put_back_is_known_until_it_is(kind: str, fault: str) -> None:
    way = Way(kind)
    way.pull(Mode.OFF)
    marks = way.guest.ledger.all()
    way.fails(FAULTS[fault])
    verdict = way.pull(Mode.ON)
    assert verdict is None or not verdict.ok or verdict.answer is Answer.PENDING
    assert way.guest.observed() is Observed.OFF
    assert way.guest.ledger.all() == marks
    way.fails(None)
    assert way.guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (way.guest.observed(), way.guest.ledger.all()) == (Observed.ON, ())


@pytest.mark.parametrize("kind", ["order", "driver", "enabled"])
def test_a_guest_that_takes_the_way_back_and_does_not_go_it_keeps_its_mark(kind: str) -> None:
    way = Way(kind)
    way.pull(Mode.OFF)
    marks, files = way.guest.ledger.all(), dict(way.guest.files)

    def undone(path: str, text: str) -> None:
        way.guest.files.clear()
        way.guest.files.update(files)

    if isinstance(way.guest, PatchedGuest):
        way.guest.stubborn = True
    else:
        way.guest.agent.on_write = undone
    verdict = way.guest.pull(Mode.AUTO)
    assert (verdict.answer, verdict.reason) == (Answer.FAILED, Reason.GUEST_ANSWER)
    assert way.guest.ledger.all() == marks


@pytest.mark.parametrize("kind", ["order", "driver", "enabled"])
def test_a_refused_change_leaves_no_mark_of_it(kind: str) -> None:
    """What the guest's owner sets so later would be taken for memhint's."""
    way = Way(kind)
    way.fails(FAULTS["refused"])
    assert way.guest.pull(Mode.OFF).answer is Answer.FAILED
    assert way.guest.ledger.all() == ()


def test_an_order_that_nobody_had_chosen_is_marked_until_one_is_there_again() -> None:
    way = Way("order")
    way.guest.files[ORDER] = "-1\n"
    way.pull(Mode.OFF)
    way.fails(FAULTS["late"])
    way.pull(Mode.ON)
    way.fails(None)
    assert way.guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (way.guest.files[ORDER].strip(), way.guest.ledger.all()) == ("9", ())
    way.guest.files[ORDER] = "-1\n"
    way.pull(Mode.OFF)
    way.pull(Mode.ON)  # it has memhint's own order by that
    assert way.guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (way.guest.files[ORDER].strip(), way.guest.ledger.all()) == ("9", ())


def test_a_mark_goes_when_what_it_says_is_undone_though_the_answer_came_too_late() -> None:
    guest = PatchedGuest(guest_actions="allow")
    assert guest.pull(Mode.OFF).answer is Answer.APPLIED
    assert guest.ledger.all()
    guest.enabled = True
    assert guest.pull(Mode.ON, dry_run=True).answer is Answer.UNCHANGED
    assert guest.ledger.all()
    assert guest.pull(Mode.ON).answer is Answer.UNCHANGED
    assert guest.ledger.all() == ()


def test_a_patched_kernel_needs_consent_like_any_other() -> None:
    guest = PatchedGuest()
    assert guest.pull(Mode.OFF).reason is Reason.CONSENT
    assert guest.changes == []


def test_undoing_restores_a_patched_kernels_switch() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.pull(Mode.OFF)
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.enabled is True
    assert guest.ledger.all() == ()


def test_order_and_delay_are_changed_in_one_call_with_a_flush_and_undone_by_another() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(order=4, delay_ms=200, flush=True)
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.changes == [{"order": 4, "delay-ms": 200, "flush": 300 * MIB}]
    assert guest.pull(Mode.AUTO).answer is Answer.UNCHANGED
    guest.tuning = Tuning(delay_ms=500)
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.changes[1:] == [{"order": 9, "delay-ms": 500}]
    guest.tuning = Tuning()
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (guest.order, guest.delay_ms) == (9, 2000)
    assert guest.ledger.all() == ()


def test_a_kernel_that_this_conversation_has_read_is_not_read_again() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(delay_ms=200)
    guest.pull(Mode.AUTO)
    for fresh in (True, False):
        target = replace(guest.target(), fresh=fresh)
        guest.asked.clear()
        assert guest.lever.pull(target, Mode.AUTO, dry_run=False).answer is Answer.UNCHANGED
        assert bool(guest.asked) is not fresh
    guest.tuning = Tuning(delay_ms=500)
    target = replace(guest.target(), fresh=True)
    guest.asked.clear()
    assert guest.lever.pull(target, Mode.AUTO, dry_run=False).answer is Answer.APPLIED
    assert guest.asked == ["guest-set-page-reporting"]


def flushes(guest: PatchedGuest, **pull: bool) -> list[object]:
    """What one more look at the guest flushes."""
    guest.changes.clear()
    assert guest.pull(Mode.AUTO, **pull).answer is Answer.UNCHANGED
    assert all(set(change) == {"flush"} for change in guest.changes)
    return [change["flush"] for change in guest.changes]


def test_what_a_guest_freed_is_flushed_once_more_when_it_comes_to_rest() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(delay_ms=200, flush=True)
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    guest.reported += AGAIN - 1
    guest.tuning = Tuning(delay_ms=200, flush=True, rests=1)
    assert flushes(guest) == []  # it gave back next to nothing
    guest.reported += 1
    guest.tuning = Tuning(delay_ms=200, rests=1)  # it is busy
    assert flushes(guest) == []
    guest.tuning = Tuning(delay_ms=200, flush=True, rests=1)
    assert flushes(guest, dry_run=True) == []
    assert flushes(guest) == [300 * MIB]
    # It goes on freeing and allocating, and never comes to rest: what it says it reported has it asked for nothing.
    for _ in range(3):
        guest.reported += GIB
        assert flushes(guest) == []


def test_a_guest_that_booted_or_is_not_known_any_more_is_flushed_anew() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(delay_ms=200, flush=True)
    guest.pull(Mode.AUTO)
    guest.files["/proc/sys/kernel/random/boot_id"] = "99999999-2222-3333-4444-555555555555"
    guest.reported = 1 * MIB
    guest.ledger.remove(guest.target().domain.uuid, DELAY_KNOB)  # and has the same setting by chance
    assert flushes(guest) == [300 * MIB]
    assert flushes(guest) == []
    guest.lever.retain(())
    assert flushes(guest) == [300 * MIB]
    # Consent that was taken back holds for it too.
    guest.lever.retain(())
    guest.policy = effective({})
    assert flushes(guest) == []


def test_a_flush_that_takes_too_long_is_not_tried_again() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(delay_ms=200, flush=True)
    guest.pull(Mode.AUTO)
    guest.reported += GIB
    guest.tuning = Tuning(delay_ms=200, flush=True, rests=1)
    guest.too_slow = True
    assert guest.pull(Mode.AUTO).reason is Reason.GUEST_TIMEOUT
    guest.too_slow = False
    assert flushes(guest) == []


def test_a_guest_that_does_not_count_what_it_reported_is_flushed_with_a_change_only() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning, guest.reported = Tuning(delay_ms=200, flush=True), None
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.changes == [{"delay-ms": 200, "flush": 300 * MIB}]
    assert flushes(guest) == []


def test_tuning_needs_consent_and_says_what_it_would_do() -> None:
    guest = PatchedGuest()
    guest.tuning = Tuning(delay_ms=200)
    assert guest.pull(Mode.AUTO).reason is Reason.CONSENT
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(delay_ms=200)
    planned = guest.pull(Mode.AUTO, dry_run=True)
    assert planned.answer is Answer.PLANNED
    assert "delay-ms 2000 to 200" in planned.detail
    assert "huge page" not in planned.detail
    guest.tuning = Tuning(order=4)
    assert "huge page" in guest.pull(Mode.AUTO, dry_run=True).detail
    assert guest.changes == []
    assert guest.ledger.all() == ()


def test_tuning_that_the_guest_does_not_have_is_unsupported() -> None:
    guest = Guest("6.12.117+deb12-cloud-amd64", guest_actions="allow")
    target = replace(guest.target(), tuning=Tuning(delay_ms=200))
    assert guest.lever.pull(target, Mode.AUTO, dry_run=False).reason is Reason.KERNEL
    assert guest.lever.pull(guest.target(), Mode.AUTO, dry_run=False).answer is Answer.UNCHANGED
    patched = PatchedGuest(guest_actions="allow")
    patched.settable = ["enabled", "order"]
    patched.tuning = Tuning(delay_ms=200)
    assert patched.pull(Mode.AUTO).answer is Answer.UNSUPPORTED
    assert patched.changes == []


def test_switching_off_takes_the_tuning_back() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(delay_ms=200)
    guest.pull(Mode.ON)
    assert guest.delay_ms == 200
    guest.pull(Mode.OFF)
    assert (guest.enabled, guest.delay_ms) == (False, 2000)


def test_what_somebody_in_the_guest_set_since_is_left_alone() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(delay_ms=200)
    guest.pull(Mode.AUTO)
    guest.delay_ms = 7000
    guest.tuning = Tuning()
    assert guest.pull(Mode.AUTO).answer is Answer.UNCHANGED
    assert guest.delay_ms == 7000
    assert guest.ledger.all() == ()


def test_a_delay_that_the_owner_set_between_two_tunings_is_what_goes_back() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(delay_ms=200)
    guest.pull(Mode.AUTO)
    guest.delay_ms = 7000
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert guest.delay_ms == 200
    guest.tuning = Tuning()
    guest.pull(Mode.AUTO)
    assert (guest.delay_ms, guest.ledger.all()) == (7000, ())


@pytest.mark.parametrize("tuned", [False, True])
def test_what_was_set_in_a_guest_ended_with_it_where_its_vm_is_shut_off(tuned: bool) -> None:
    guest = PatchedGuest(guest_actions="allow") if tuned else Guest("6.1.0", guest_actions="allow")
    guest.tuning = Tuning(order=4, delay_ms=200)
    guest.pull(Mode.ON if tuned else Mode.OFF)
    assert len(guest.ledger.all()) == (2 if tuned else 1)
    guest.state, guest.tuning = DomainState.SHUTOFF, Tuning()
    if not tuned:
        assert guest.pull(Mode.OFF, agent=False).reason is Reason.NOT_RUNNING  # nothing is given back
        assert len(guest.ledger.all()) == 1
    assert guest.pull(Mode.AUTO, agent=False, dry_run=True).answer is Answer.PLANNED
    assert guest.pull(Mode.AUTO, agent=False).answer is Answer.UNCHANGED
    assert guest.ledger.all() == ()


@pytest.mark.parametrize("tuned", [False, True])
def test_what_was_set_in_a_guest_is_kept_with_it_where_libvirt_has_saved_its_vm(tuned: bool) -> None:
    guest = PatchedGuest(guest_actions="allow") if tuned else Guest("6.1.0", guest_actions="allow")
    guest.tuning = Tuning(order=4)
    guest.pull(Mode.ON if tuned else Mode.OFF)
    guest.state, guest.tuning, guest.next_boot.anew = DomainState.SHUTOFF, Tuning(), False
    left = guest.pull(Mode.AUTO, agent=False)
    assert (left.answer, left.reason) == (Answer.PENDING, Reason.NOT_RUNNING)
    assert len(guest.ledger.all()) == 1


def test_where_libvirt_does_not_say_whether_a_vm_is_saved_its_mark_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest("6.1.0", guest_actions="allow")
    guest.pull(Mode.OFF)
    guest.state = DomainState.SHUTOFF

    monkeypatch.setattr(FakeNextBoot, "begins_anew", libvirtd_is_away)
    verdict = guest.pull(Mode.AUTO, agent=False)
    assert (verdict.answer, verdict.reason) == (Answer.FAILED, Reason.HYPERVISOR)
    assert len(guest.ledger.all()) == 1


def test_an_undo_looks_at_the_guest_as_it_is_now() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(delay_ms=200)
    before = guest.target()
    guest.pull(Mode.AUTO)
    # What the cycle saw is from before its own change.
    assert guest.lever.pull(replace(before, tuning=Tuning()), Mode.AUTO, dry_run=False).answer is Answer.APPLIED
    assert guest.delay_ms == 2000


def test_what_was_tuned_is_put_back_in_a_guest_of_which_nothing_was_seen_yet() -> None:
    """As by an agent that is stopped right after its start."""
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(order=4, delay_ms=200)
    guest.pull(Mode.AUTO)
    guest.tuning = Tuning()
    seen = guest.target()
    unseen = replace(seen, domain=replace(seen.domain, guest_kernel=None))
    silent = guest.lever.pull(replace(unseen, agent=None), Mode.AUTO, dry_run=False)
    assert (silent.answer, silent.reason) == (Answer.PENDING, Reason.NO_GUEST_AGENT)
    assert guest.lever.pull(unseen, Mode.AUTO, dry_run=True).answer is Answer.PLANNED
    assert (guest.order, guest.delay_ms) == (4, 200)
    guest.too_slow = True  # to take a setting; it is tried again while there is time
    assert guest.lever.pull(unseen, Mode.AUTO, dry_run=False).answer is Answer.FAILED
    guest.too_slow = False
    assert guest.lever.pull(unseen, Mode.AUTO, dry_run=False).answer is Answer.APPLIED
    assert (guest.order, guest.delay_ms, guest.ledger.all()) == (9, 2000, ())


def test_a_guest_that_was_not_tuned_is_not_asked_for_that() -> None:
    guest = PatchedGuest(guest_actions="allow")
    target = guest.target()
    guest.asked.clear()
    unseen = replace(target, domain=replace(target.domain, guest_kernel=None))
    assert guest.lever.pull(unseen, Mode.AUTO, dry_run=False).answer is Answer.UNCHANGED
    assert guest.asked == []
    guest.tuning = Tuning(delay_ms=200)
    guest.pull(Mode.AUTO)
    off = replace(unseen, domain=replace(unseen.domain, state=DomainState.SHUTOFF))
    guest.asked.clear()
    assert guest.lever.pull(off, Mode.AUTO, dry_run=False).answer is Answer.UNCHANGED
    assert guest.asked == []


def test_what_a_guest_was_too_slow_to_take_back_is_tried_again() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.tuning = Tuning(order=4)
    guest.pull(Mode.AUTO)
    guest.tuning = Tuning()
    guest.too_slow = True
    assert guest.pull(Mode.AUTO).reason is Reason.GUEST_TIMEOUT
    guest.too_slow = False
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (guest.order, guest.ledger.all()) == (9, ())


@pytest.mark.parametrize("boot", [True, False])
@pytest.mark.parametrize(
    ("fault", "took"), [("refused", False), ("late", False), ("late", True), ("killed", False), ("killed", True)]
)
def test_of_two_tunings_the_second_of_which_failed_either_is_memhint_s(fault: str, took: bool, boot: bool) -> None:
    guest = PatchedGuest(guest_actions="allow")
    if not boot:
        del guest.files["/proc/sys/kernel/random/boot_id"]
    guest.tuning = Tuning(delay_ms=200)
    guest.pull(Mode.AUTO)
    guest.write_fails = FAULTS[fault]
    guest.tuning = Tuning(delay_ms=500)
    with contextlib.suppress(Killed):
        assert guest.pull(Mode.AUTO).answer is Answer.FAILED
    guest.delay_ms = 500 if took else 200
    guest.write_fails = None
    guest.tuning = Tuning()
    assert guest.pull(Mode.AUTO).answer is Answer.APPLIED
    assert (guest.delay_ms, guest.ledger.all()) == (2000, ())


def test_once_the_second_tuning_is_there_the_first_is_somebody_else_s() -> None:
    guest = PatchedGuest(guest_actions="allow")
    for guest.tuning in (Tuning(delay_ms=200), Tuning(delay_ms=500)):
        guest.pull(Mode.AUTO)
    guest.delay_ms = 200
    guest.tuning = Tuning()
    assert guest.pull(Mode.AUTO).answer is Answer.UNCHANGED
    assert (guest.delay_ms, guest.ledger.all()) == (200, ())


def test_a_tuning_that_the_guest_refuses_leaves_no_mark() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.write_fails = FAULTS["refused"]
    guest.tuning = Tuning(delay_ms=200)
    assert guest.pull(Mode.AUTO).answer is Answer.FAILED
    assert guest.ledger.all() == ()


def test_a_guest_that_ignores_the_tuning_has_failed_and_keeps_its_mark() -> None:
    guest = PatchedGuest(guest_actions="allow")
    guest.stubborn = True
    guest.tuning = Tuning(delay_ms=200)
    assert guest.pull(Mode.AUTO).reason is Reason.GUEST_ANSWER
    assert len(guest.ledger.all()) == 1
