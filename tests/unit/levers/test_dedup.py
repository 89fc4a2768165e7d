"""The dedup lever: everybody else out first and seen to be out, then the members, then KSM; and all of it back."""

import threading
from dataclasses import replace

import pytest

from lab.memory_ledger import MemoryLedger
from lab.waiting import wait_for
from memhint.agent.runners.host import HostRunner
from memhint.kernel.errors import InterfaceUnreadable, WriteRejected
from memhint.kernel.ksm import KsmKnob
from memhint.kernel.root import KernelRoot
from memhint.levers.arrivals import Arrivals
from memhint.levers.dedup import DedupLever, DedupSettings
from memhint.levers.dedup_merge import MERGE_KNOB
from memhint.objects.domain import DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.lever import LeverName, Observed
from memhint.objects.merge_ranges import RangeChoice
from memhint.objects.ownership import HOST, Mark
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason
from memhint.planner.dedup import plan_dedup
from memhint.planner.dedup_pace import Pace
from memhint.store.errors import StoreError
from memhint.virt.errors import LibvirtCallFailed
from tests.unit import builders
from tests.unit.agent.views import asking, view_of
from tests.unit.kernel.fake_root import FakeRoot
from tests.unit.levers.fakes import FakeMonitor

KSM = "sys/kernel/mm/ksm"
WAIT_S = 60.0  # never reached unless the test fails
BEFORE = {
    "run": "0\n",
    "use_zero_pages": "0\n",
    "pages_to_scan": "100\n",
    "sleep_millisecs": "25\n",
    "advisor_mode": "[none] scan-time\n",
    "advisor_target_scan_time": "200\n",
    "advisor_max_cpu": "70\n",
    "smart_scan": "1\n",
    "ksm_zero_pages": "0\n",
}


class SysfsKsm(KernelRoot):
    """KSM's files as the kernel has them: all advisors are shown, and one that runs keeps pages_to_scan to itself."""

    refused = ""

    def write_text(self, relative: str, text: str) -> None:
        name = relative.removeprefix(f"{KSM}/")
        if name == "advisor_mode":
            text = "none [scan-time]\n" if text.strip() == "scan-time" else "[none] scan-time\n"
        advised = "[scan-time]" in self.read_text(f"{KSM}/advisor_mode")
        if name == self.refused or (name == "pages_to_scan" and advised):
            raise WriteRejected(self.path(relative), "Invalid argument")
        super().write_text(relative, text)


class Host:
    """Four VMs of two projects on a host whose kernel files are a tree in a directory."""

    def __init__(self, path, **settings: object) -> None:
        self.root = FakeRoot(path)
        self.root.write_all(KSM, BEFORE)
        self.root.write("proc/1/comm", "systemd\n")
        self.ledger = MemoryLedger()
        self.asks = {"a": "on", "b": "on"}
        self.domains = [self.vm("a", 11), self.vm("b", 12), self.vm("c", 13), self.vm("d", 14, "p2")]
        self.monitors = {one.uuid: FakeMonitor(self.root, one.process.pid, 1 * GIB) for one in self.domains}
        self.available = 8 * GIB
        self.unreadable = False
        self.reads = 0  # of what is available
        self.choices: dict[str, RangeChoice] = {}
        self.arrivals = Arrivals()
        self.boot = "boot-1"
        self.settings = DedupSettings(**{"allow_monitor_commands": True, **settings})
        self.lever = self.make()

    def as_sysfs(self) -> None:
        self.root.kernel = SysfsKsm(self.root.path)
        self.lever = self.make()

    def make(self) -> DedupLever:
        return DedupLever(
            self.root.kernel,
            self.ledger,
            self.monitors.__getitem__,
            self.settings,
            self.boot,
            lambda _: 1 * GIB,
            self.read_available,
            lambda: 1.0,
            lambda uuid, instance: self.choices.get(uuid),
            self.arrivals,
        )

    def vm(self, name: str, pid: int, project: str = "p1"):
        return builders.domain_observation(
            uuid=name,
            name=name,
            facts=builders.facts(memory=1 * GIB, project=project),
            process=builders.process(pid=pid, rss=1 * GIB, ksm_merging=0, ksm_zero=0),
        )

    def read_available(self) -> int:
        self.reads += 1
        if self.unreadable:
            raise InterfaceUnreadable("/proc/meminfo", "Input/output error")
        return self.available

    def merged(self, **sizes: int) -> None:
        """So much of these VMs is merged; who is separated takes it from what is available."""

        def take(size: int) -> None:
            self.available -= size

        for place, one in enumerate(self.domains):
            if size := sizes.get(one.uuid):
                self.domains[place] = replace(one, process=replace(one.process, ksm_merging=size))
                self.monitors[one.uuid].separated = lambda size=size: take(size)

    def seen(self):
        run = int(self.knob("run"))
        return builders.host_observation(
            memory=builders.host_memory(total=16 * GIB, available=self.available), ksm=builders.ksm(run=run)
        )

    def plan(self):
        policies = {
            one.uuid: effective({Origin.OPERATOR: {"dedup": self.asks.get(one.uuid, "off")}}) for one in self.domains
        }
        return plan_dedup(self.domains, policies, None, False)

    def reconcile(self, *, dry_run: bool = False):
        outcome = self.lever.reconcile(self.plan(), self.domains, self.seen(), dry_run=dry_run)
        return outcome.verdicts, outcome.host

    def arrive(self, name: str, pid: int, project: str = "p1") -> None:
        """A VM starts: it is mergeable, and libvirt tells of it."""
        self.domains.append(self.vm(name, pid, project))
        self.monitors[name] = FakeMonitor(self.root, pid, 1 * GIB)
        self.tell()

    def tell(self) -> None:
        self.arrivals.note()
        self.lever.arrived()

    def ksm_counters(self, saving: int) -> None:
        counters = {"pages_shared": 0, "pages_sharing": saving // 4096, "full_scans": 1}
        self.root.write_all(KSM, {name: f"{value}\n" for name, value in counters.items()})

    def knob(self, name: str) -> str:
        return self.root.text(f"{KSM}/{name}").strip()

    def merging(self) -> set[str]:
        return {name for name, monitor in self.monitors.items() if monitor.merge}


@pytest.fixture
def host(tmp_path) -> Host:
    return Host(tmp_path, advisor=None, target_scan_time=None, max_cpu=None, sleep_millisecs=5, pages_to_scan=1000)


def test_members_merge_and_all_others_are_out(host: Host) -> None:
    verdicts, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert host.merging() == {"a", "b"}
    assert (host.knob("run"), host.knob("use_zero_pages"), host.knob("sleep_millisecs")) == ("1", "1", "5")
    assert {name: verdict.answer for name, verdict in verdicts.items()} == {
        "a": Answer.APPLIED,
        "b": Answer.APPLIED,
        "c": Answer.UNCHANGED,
        "d": Answer.UNCHANGED,
    }
    assert host.lever.read(host.domains[0], host.seen()) is Observed.ON
    assert host.lever.read(host.domains[2], host.seen()) is Observed.OFF


def test_a_kernel_that_does_not_count_pages_of_zeros_merges_none_with_the_zero_page(host: Host) -> None:
    host.root.remove(f"{KSM}/ksm_zero_pages")
    host.root.write(f"{KSM}/use_zero_pages", "1\n")
    _, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert (host.knob("run"), host.knob("use_zero_pages")) == ("1", "0")
    host.lever.undo(host.domains, host.seen())
    assert host.knob("use_zero_pages") == "1"


def test_nothing_but_pages_of_zeros_is_not_merged_where_the_kernel_does_not_count_them(tmp_path) -> None:
    host = Host(tmp_path, empty_only=True)
    seen = host.seen()
    assert seen.ksm is not None
    seen = replace(seen, ksm=replace(seen.ksm, empty_only=False))
    assert host.lever.probe(seen).answer is not Answer.UNSUPPORTED
    host.root.remove(f"{KSM}/ksm_zero_pages")
    probed = host.lever.probe(seen)
    assert (probed.answer, probed.reason) == (Answer.UNSUPPORTED, Reason.KERNEL)
    assert "6.6" in probed.detail


def test_a_second_pass_asks_no_qemu(host: Host) -> None:
    host.reconcile()
    before = {name: list(monitor.history) for name, monitor in host.monitors.items()}
    _, own = host.reconcile()
    assert own.answer is Answer.UNCHANGED
    assert {name: monitor.history for name, monitor in host.monitors.items()} == before


def test_a_kernel_that_merges_empty_pages_only_merges_others_too_meanwhile(host: Host) -> None:
    host.root.write(f"{KSM}/zero_pages_only", "1\n")
    host.reconcile()
    assert host.knob("zero_pages_only") == "0"
    host.lever.undo(host.domains, host.seen())
    assert host.knob("zero_pages_only") == "1"


def test_ksm_does_not_run_while_somebody_cannot_be_kept_out(host: Host) -> None:
    host.monitors["c"].deaf = True
    verdicts, own = host.reconcile()
    assert (own.answer, own.reason) == (Answer.REFUSED, Reason.NOT_VERIFIED)
    assert verdicts["c"].reason is Reason.NOT_VERIFIED
    assert host.knob("run") == "0"
    assert own.detail == f"KSM does not run while {host.domains[2].name} may be merged"
    assert (verdicts["a"].answer, verdicts["a"].detail) == (
        Answer.REFUSED,
        "KSM does not run while a VM that must not may be merged",  # its project reads this
    )


def test_a_vm_whose_definition_says_merge_off_is_unmarked_though_its_qemu_marked_it(host: Host) -> None:
    """``memory-backend-ram,merge=off``: the property says no, and the host's kernel yes."""
    host.monitors["d"] = FakeMonitor(host.root, 14, 1 * GIB, defined=False)
    _, own = host.reconcile()
    assert host.merging() == {"a", "b"}
    assert own.ok
    assert host.knob("run") == "1"


def test_a_qemu_that_cannot_be_unmarked_is_set_anew_once_and_not_in_every_pass(host: Host) -> None:
    """Each time takes two walks over all of its memory, under which its guest stands still."""
    host.monitors["d"] = FakeMonitor(host.root, 14, 1 * GIB, defined=False)
    host.monitors["d"].deaf = True
    host.reconcile()
    asked = len(host.monitors["d"].history)
    assert True in host.monitors["d"].history
    host.reconcile()
    assert True not in host.monitors["d"].history[asked:]


def test_a_qemu_that_did_not_hear_it_is_set_anew_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.monitors["d"] = FakeMonitor(host.root, 14, 1 * GIB, defined=False)
    real = FakeMonitor.set

    def away(self, path: str, name: str, value: object) -> None:
        if value is True and self is host.monitors["d"]:
            raise LibvirtCallFailed("libvirtd was started again")
        real(self, path, name, value)

    with monkeypatch.context() as patch:
        patch.setattr(FakeMonitor, "set", away)
        _, own = host.reconcile()
        assert own.reason is Reason.NOT_VERIFIED
    _, own = host.reconcile()
    assert own.ok
    host.reconcile()
    assert host.knob("run") == "1"


def test_ksm_rests_while_such_a_newcomer_is_unmarked(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.reconcile()
    host.domains.append(host.vm("e", 15, "p2"))
    host.monitors["e"] = FakeMonitor(host.root, 15, 1 * GIB, defined=False)
    runs: list[tuple[object, str]] = []
    real = FakeMonitor.set

    def watched(self, path: str, name: str, value: object) -> None:
        runs.append((value, host.knob("run")))
        real(self, path, name, value)

    monkeypatch.setattr(FakeMonitor, "set", watched)
    host.reconcile()
    assert (True, "1") not in runs
    assert (True, "0") in runs
    host.reconcile()
    assert host.knob("run") == "1"
    assert host.merging() == {"a", "b"}


def test_who_is_out_by_the_hosts_kernel_is_not_asked(host: Host) -> None:
    """As with <nosharepages/>: its QEMU marked nothing, and need not even answer."""
    host.monitors["d"].merge = False
    host.monitors["d"].show()
    host.monitors["d"].broken = True
    verdicts, own = host.reconcile()
    assert own.ok
    assert verdicts["d"].ok
    assert host.monitors["d"].history == []
    assert host.ledger.get("d", "qemu merge") is None


def test_memory_that_is_plugged_in_is_seen_to_be_out_again(host: Host) -> None:
    host.reconcile()
    host.monitors["d"].size, host.monitors["d"].merge = 2 * GIB, True  # QEMU marks the new part
    host.monitors["d"].said = True
    host.monitors["d"].show()
    host.domains[3] = replace(host.domains[3], facts=replace(host.domains[3].facts, memory=2 * GIB))
    host.reconcile()
    assert host.merging() == {"a", "b"}


def test_one_of_the_same_project_that_asked_keeps_nobody_from_merging(host: Host) -> None:
    """Only who asked: a VM that did not, and those of other projects, must be out."""
    host.asks["c"] = "on"
    host.domains[2] = replace(host.domains[2], state=DomainState.PAUSED)
    host.monitors["c"].broken = True
    verdicts, own = host.reconcile()
    assert own.ok
    assert not verdicts["c"].ok
    assert host.knob("run") == "1"
    host.asks["d"] = "on"
    host.domains[3] = replace(host.domains[3], state=DomainState.PAUSED)
    host.monitors["d"] = FakeMonitor(host.root, 14, 1 * GIB)
    host.monitors["d"].broken = True
    host.lever = host.make()
    host.reconcile()
    assert host.knob("run") == "0", "another project's"


def test_ksm_stops_when_a_newcomer_cannot_be_kept_out(host: Host) -> None:
    host.reconcile()
    newcomer = host.vm("e", 15)
    host.domains.append(newcomer)
    host.monitors["e"] = FakeMonitor(host.root, 15, 1 * GIB)
    host.monitors["e"].broken = True
    host.reconcile()
    assert host.knob("run") == "0"
    host.monitors["e"].broken = False
    host.reconcile()
    assert host.knob("run") == "1"
    assert host.merging() == {"a", "b"}


def runs_seen(host: Host, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What KSM's `run` is at each change of a QEMU from now on."""
    runs: list[str] = []
    real = FakeMonitor.set

    def watched(self, path: str, name: str, value: object) -> None:
        runs.append(host.knob("run"))
        real(self, path, name, value)

    monkeypatch.setattr(FakeMonitor, "set", watched)
    return runs


def test_ksm_rests_while_it_takes_long_to_keep_somebody_out(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A VM that leaves is separated for minutes, and a pass knows nothing of those that start meanwhile."""
    host.reconcile()
    host.asks = {"b": "on"}
    runs = runs_seen(host, monkeypatch)
    host.reconcile()
    assert runs == ["0"]
    assert host.knob("run") == "1"


def test_on_hold_ksm_rests_and_nothing_is_separated_or_forgotten(host: Host) -> None:
    host.reconcile()

    def owned() -> set[tuple[str, str, str]]:
        return {(mark.subject, mark.knob, mark.before) for mark in host.ledger.all()}

    before = owned()
    assert host.lever.hold().ok
    assert host.knob("run") == "0"
    assert (owned(), host.merging()) == (before, {"a", "b"})
    host.reconcile()
    assert host.knob("run") == "1"


def test_ksm_stops_at_once_where_a_vm_starts_and_goes_on_when_it_is_out(host: Host) -> None:
    host.reconcile()
    host.arrive("e", 15, "p2")
    wait_for(lambda: host.knob("run") == "0", WAIT_S, "KSM to rest")
    assert host.merging() == {"a", "b", "e"}  # what is merged stays so
    host.lever.knows(host.arrivals.count)
    host.reconcile()
    assert (host.knob("run"), host.merging()) == ("1", {"a", "b"})


def test_ksm_stops_where_a_vm_starts_though_there_is_no_thread_for_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.reconcile()

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    host.arrive("e", 15, "p2")
    assert host.knob("run") == "0"


def test_a_member_that_is_paused_is_left_as_it_is(host: Host) -> None:
    plan = host.plan()
    host.reconcile()
    before = list(host.monitors["a"].history)
    host.domains[0] = replace(host.domains[0], state=DomainState.PAUSED)
    host.choices["a"] = RangeChoice((), 0, 0)
    host.lever = host.make()  # another agent, which knows nothing of it
    outcome = host.lever.reconcile(plan, host.domains, host.seen(), dry_run=False)
    assert (outcome.verdicts["a"].answer, outcome.verdicts["a"].reason) == (Answer.UNCHANGED, Reason.NOT_RUNNING)
    assert host.monitors["a"].history == before
    assert host.merging() == {"a", "b"}
    assert host.knob("run") == "1"


def test_a_pass_that_does_not_know_the_newcomer_does_not_switch_ksm_on(host: Host) -> None:
    host.reconcile()
    known = list(host.domains)
    host.arrive("e", 15, "p2")
    wait_for(lambda: host.knob("run") == "0", WAIT_S, "KSM to rest")
    outcome = host.lever.reconcile(host.plan(), known, host.seen(), dry_run=False)
    assert (outcome.host.answer, outcome.host.reason) == (Answer.PENDING, Reason.NOT_VERIFIED)
    assert host.knob("run") == "0"


def test_ksm_is_not_switched_on_at_first_where_a_vm_has_started_meanwhile(host: Host) -> None:
    host.arrivals.note()
    _, own = host.reconcile()
    assert (own.answer, host.knob("run")) == (Answer.PENDING, "0")
    host.lever.knows(1)
    host.reconcile()
    assert host.knob("run") == "1"


def test_what_starts_does_not_stop_ksm_of_somebody_else(host: Host) -> None:
    host.root.write(f"{KSM}/run", "1\n")
    host.tell()
    wait_for(lambda: not any(one.name == "dedup-arrival" for one in threading.enumerate()), WAIT_S, "it to be told")
    assert host.knob("run") == "1"


@pytest.mark.parametrize("pause", [False, True])
def test_ksm_that_had_separated_everything_does_so_again_in_the_end(host: Host, pause: bool) -> None:
    host.root.write(f"{KSM}/run", "2\n")
    host.reconcile()
    assert host.knob("run") == "1"
    if pause:
        host.lever.hold()
    host.ksm_counters(0)
    host.lever = host.make()
    assert host.lever.undo(host.domains, host.seen()).ok
    assert host.knob("run") == "2"


def test_everything_is_separated_in_the_end_only_where_there_is_room(host: Host) -> None:
    host.root.write(f"{KSM}/run", "2\n")
    host.reconcile()
    host.ksm_counters(2 * GIB)
    host.available = 2 * GIB
    assert not host.lever.undo(host.domains, host.seen()).ok
    assert host.knob("run") == "0"
    host.available = 8 * GIB
    assert host.lever.undo(host.domains, host.seen()).ok
    assert (host.knob("run"), host.ledger.all()) == ("2", ())


def test_a_mark_of_another_boot_does_not_make_somebody_elses_ksm_memhints(host: Host) -> None:
    host.reconcile()
    mark = host.ledger.get(HOST, "run")
    host.ledger.remove(HOST, "run")
    host.ledger.put(replace(mark, instance="boot-0"))
    _, own = host.reconcile()
    assert own.answer is Answer.CONFLICT
    host.lever.hold()
    assert host.knob("run") == "1"


def test_marks_of_another_boot_are_dropped_though_this_kernel_does_not_have_their_knobs(tmp_path) -> None:
    host = Host(tmp_path, advisor=None, target_scan_time=100, max_cpu=None)
    host.reconcile()
    marks = host.ledger.all()
    assert {"advisor_target_scan_time", "smart_scan"} <= {mark.knob for mark in marks}
    host.root.write_all(KSM, BEFORE)
    host.root.remove(f"{KSM}/advisor_target_scan_time").remove(f"{KSM}/smart_scan")
    host.boot, host.settings = "boot-2", replace(host.settings, target_scan_time=None)
    host.lever = host.make()
    _, own = host.reconcile()
    assert (own.answer, host.knob("run")) == (Answer.APPLIED, "1"), "a knob wanted no more keeps KSM from nothing"
    assert host.ledger.get(HOST, "advisor_target_scan_time") is None
    for mark in marks:
        host.ledger.put(mark)
    assert host.lever.undo(host.domains, host.seen()).answer is Answer.APPLIED
    assert host.ledger.all() == ()


def test_ksm_that_an_operator_stopped_is_not_stopped_again(host: Host) -> None:
    host.reconcile()
    host.root.write(f"{KSM}/run", "2\n")
    host.lever.hold()
    assert host.knob("run") == "2"


def test_ksm_of_somebody_else_does_not_rest_for_memhint(host: Host) -> None:
    host.root.write(f"{KSM}/run", "1\n")
    host.lever.hold()
    assert host.knob("run") == "1"


def test_one_missed_reading_of_a_process_forgets_no_mark(host: Host) -> None:
    host.reconcile()
    marks = {mark.subject for mark in host.ledger.all()}
    seen = host.domains[2]
    host.domains[2] = replace(seen, process=None)
    host.reconcile()
    assert {mark.subject for mark in host.ledger.all()} == marks
    host.domains[2] = replace(seen, process=None, state=DomainState.SHUTOFF)
    host.reconcile()
    assert {mark.subject for mark in host.ledger.all()} == marks - {"c"}


@pytest.mark.parametrize(
    ("reason", "runs"), [(GapReason.GONE, "1"), (GapReason.UNREADABLE, "0"), (GapReason.UNSUPPORTED, "0")]
)
def test_ksm_rests_while_a_vm_runs_of_whose_process_nothing_can_be_read(
    host: Host, reason: GapReason, runs: str
) -> None:
    """But for one that has ended, or that is not there yet."""
    host.reconcile()
    host.domains.append(replace(host.vm("e", 15, "p2"), process=None, gaps=(Gap("process", reason),)))
    host.reconcile()
    assert host.knob("run") == runs
    host.domains[-1] = replace(host.domains[-1], state=DomainState.SHUTOFF, gaps=())
    host.reconcile()
    assert host.knob("run") == "1"


def test_a_member_whose_process_was_not_read_keeps_nobody_from_merging(host: Host) -> None:
    host.reconcile()
    host.domains[0] = replace(host.domains[0], process=None, gaps=(Gap("process", GapReason.UNREADABLE),))
    host.reconcile()
    assert host.knob("run") == "1"


def test_off_separates_stops_and_restores_everything(host: Host) -> None:
    host.reconcile()
    host.asks = {}
    _, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert {name: host.knob(name) for name in BEFORE} == {name: text.strip() for name, text in BEFORE.items()}
    assert host.monitors["a"].history == [True, False, True]  # separated, then as QEMU had it
    assert host.merging() == {"a", "b", "c", "d"}
    assert host.ledger.all() == ()


def test_what_was_changed_of_a_vm_whose_process_cannot_be_read_now_is_put_back_later(host: Host) -> None:
    host.reconcile()
    seen = host.domains[2]
    host.domains[2] = replace(seen, process=None, gaps=(Gap("process", GapReason.UNREADABLE),))
    assert not host.lever.undo(host.domains, host.seen()).ok
    assert [mark.subject for mark in host.ledger.all()] == ["c"]
    host.domains[2] = seen
    assert host.lever.undo(host.domains, host.seen()).ok
    assert (host.merging(), host.ledger.all()) == ({"a", "b", "c", "d"}, ())


def fails_to_separate(host: Host, name: str, how: str, patch: pytest.MonkeyPatch) -> None:
    """How a VM's QEMU does not separate its pages: it does not answer, at once or half way, or only says it did."""
    monitor = host.monitors[name]
    if how == "half way":

        def hangs(path: str, name: str, value: object) -> None:
            raise LibvirtCallFailed("it does not answer")

        patch.setattr(monitor, "set", hangs)
    else:
        patch.setattr(monitor, {"at once": "broken", "says so": "deaf"}[how], True)


@pytest.mark.parametrize("how", ["at once", "half way", "says so"])
@pytest.mark.parametrize("left", [False, True], ids=["member", "left before"])
def test_who_could_not_be_separated_in_the_end_keeps_its_mark_and_is_separated_later(
    host: Host, monkeypatch: pytest.MonkeyPatch, how: str, left: bool
) -> None:
    """To set its property back is no change for its QEMU: what is merged would stay so, and nobody knew of it."""
    host.reconcile()
    host.merged(a=1 * GIB)
    with monkeypatch.context() as patch:
        fails_to_separate(host, "a", how, patch)
        if left:  # and QEMU was told to keep it out then
            host.asks["a"] = "off"
            host.reconcile()
            host.lever = host.make()
        for _ in range(2):
            verdict = host.lever.undo(host.domains, host.seen())
            assert (verdict.answer, verdict.detail.startswith("a: ")) == (Answer.FAILED, True)
            assert [mark.subject for mark in host.ledger.all()] == ["a"]
            assert host.knob("run") == "0"
    assert host.available == 8 * GIB, "nothing of it was separated"
    host.lever = host.make()
    assert host.lever.undo(host.domains, host.seen()).ok
    assert host.available == 7 * GIB
    assert (host.merging(), host.ledger.all()) == ({"a", "b", "c", "d"}, ())


def test_who_was_out_all_the_time_is_not_separated_in_the_end(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes room, and its QEMU's time."""
    host.reconcile()
    host.lever = host.make()
    told = {name: list(monitor.history) for name, monitor in host.monitors.items()}
    assert host.lever.undo(host.domains, host.seen()).ok
    assert {name: host.monitors[name].history[len(told[name]) :] for name in "cd"} == {"c": [True], "d": [True]}


def test_one_vm_leaves_and_the_others_go_on(host: Host) -> None:
    host.reconcile()
    host.asks = {"b": "on"}
    host.reconcile()
    assert host.merging() == {"b"}
    assert host.knob("run") == "1"


def test_a_vm_that_was_let_in_by_half_is_kept_out_as_it_leaves(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it was verified to be out says nothing any more, once its QEMU was told to merge."""
    host.asks = {"b": "on"}
    host.reconcile()
    assert host.merging() == {"b"}
    host.asks["a"] = "on"
    real = FakeMonitor.set

    def breaks_off(self, path: str, name: str, value: object) -> None:
        real(self, path, name, value)
        if value is True:
            raise LibvirtCallFailed("no answer for the second of its objects")

    with monkeypatch.context() as patch:
        patch.setattr(FakeMonitor, "set", breaks_off)
        verdicts, _ = host.reconcile()
    assert verdicts["a"].answer is Answer.FAILED
    assert host.merging() == {"a", "b"}
    assert host.lever.read(host.domains[0], host.seen()) is not Observed.OFF
    host.asks = {"b": "on"}
    _, own = host.reconcile()
    assert own.ok
    assert host.merging() == {"b"}


def test_a_vm_that_was_put_back_by_half_is_kept_out_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.reconcile()
    asked, host.asks = host.asks, {}
    real = FakeMonitor.set

    def breaks_off(self, path: str, name: str, value: object) -> None:
        real(self, path, name, value)
        if value is True and self is host.monitors["d"]:
            raise LibvirtCallFailed("no answer for the second of its objects")

    with monkeypatch.context() as patch:
        patch.setattr(FakeMonitor, "set", breaks_off)
        assert not host.reconcile()[1].ok
    assert "d" in host.merging()
    host.asks = asked
    assert host.reconcile()[1].ok
    assert host.merging() == {"a", "b"}


@pytest.mark.parametrize("value", ["0", "2"])
def test_ksm_that_an_operator_stops_rests_until_it_is_switched_on_again(host: Host, value: str) -> None:
    host.reconcile()
    host.root.write(f"{KSM}/run", f"{value}\n")
    for _ in range(2):
        own = host.reconcile()[1]
        assert (own.answer, own.reason, host.knob("run")) == (Answer.CONFLICT, Reason.OTHER_MANAGER, value)
    host.root.write(f"{KSM}/run", "1\n")
    assert host.reconcile()[1].answer is Answer.UNCHANGED
    assert host.lever.undo(host.domains, host.seen()).ok
    assert host.knob("run") == "0"


def test_ksm_that_an_operator_stops_rests_after_a_reload(host: Host) -> None:
    host.reconcile()
    host.root.write(f"{KSM}/run", "0\n")
    for look in range(4):
        earlier, host.lever = host.lever, host.make()
        runner, before = HostRunner(host.lever), HostRunner(earlier)
        runner.inherit(before)
        own = host.reconcile()[1] if look % 2 else None
        assert host.knob("run") == "0"
        assert own is None or own.answer is Answer.CONFLICT
    host.root.write(f"{KSM}/run", "1\n")
    assert host.reconcile()[1].answer is Answer.UNCHANGED


def test_what_memhint_paused_itself_it_switches_on_again_after_a_reload(host: Host) -> None:
    host.reconcile()
    host.lever.hold()
    earlier, host.lever = host.lever, host.make()
    HostRunner(host.lever).inherit(HostRunner(earlier))
    assert (host.reconcile()[1].answer, host.knob("run")) == (Answer.APPLIED, "1")


def test_what_memhint_paused_itself_it_switches_on_again(host: Host) -> None:
    host.reconcile()
    host.lever.hold()
    assert host.knob("run") == "0"
    assert (host.reconcile()[1].answer, host.knob("run")) == (Answer.APPLIED, "1")


def test_separating_needs_headroom(host: Host) -> None:
    host.reconcile()
    host.domains[0] = replace(host.domains[0], process=replace(host.domains[0].process, ksm_merging=700 * MIB))
    host.available = int(1.5 * GIB)
    host.asks = {"b": "on"}
    verdicts, own = host.reconcile()
    assert verdicts["a"].reason is Reason.HEADROOM
    assert host.monitors["a"].merge
    assert own.reason is Reason.NOT_VERIFIED  # it opted out and is still mergeable: KSM rests
    assert host.knob("run") == "0"


@pytest.fixture
def full(host: Host) -> Host:
    """Four members of one project with 1 GiB merged of each, and room for one and a half."""
    host.domains[3] = host.vm("d", 14)
    host.asks = dict.fromkeys("abcd", "on")
    host.reconcile()
    assert host.merging() == {"a", "b", "c", "d"}
    host.merged(**dict.fromkeys("abcd", 1 * GIB))
    host.available, host.reads = int(2.5 * GIB), 0
    return host


def separated(host: Host) -> set[str]:
    return {name for name, monitor in host.monitors.items() if False in monitor.history}


def test_in_the_end_no_more_vms_are_separated_than_there_is_room_for(full: Host) -> None:
    verdict = full.lever.undo(full.domains, full.seen())
    assert (separated(full), full.available) == ({"a"}, int(1.5 * GIB))
    assert not verdict.ok
    assert "d: refused (headroom)" in verdict.detail
    assert full.knob("run") == "0"


@pytest.mark.parametrize(("saving", "expected"), [(4 * GIB, {"a"}), (1 * GIB, {"a"}), (0, {"a", "b", "c", "d"})])
def test_where_the_kernel_counts_for_no_single_process_all_of_one_may_be_merged(
    full: Host, saving: int, expected: set[str]
) -> None:
    """Before Linux 5.19: KSM tells of all of them together only."""
    full.domains = [replace(one, process=replace(one.process, ksm_merging=None, ksm_zero=None)) for one in full.domains]
    full.ksm_counters(saving)
    full.lever.undo(full.domains, full.seen())
    assert separated(full) == expected


def test_of_a_project_that_is_turned_off_no_more_vms_are_separated_than_there_is_room_for(full: Host) -> None:
    full.asks = {}
    _, own = full.reconcile()
    assert (separated(full), full.available) == ({"a"}, int(1.5 * GIB))
    assert not own.ok


def test_of_vms_that_leave_no_more_are_separated_than_there_is_room_for(full: Host) -> None:
    full.asks = {"d": "on"}
    verdicts, own = full.reconcile()
    assert (separated(full), full.available) == ({"a"}, int(1.5 * GIB))
    assert [verdicts[name].reason for name in "bc"] == [Reason.HEADROOM] * 2
    assert verdicts["a"].ok
    assert own.reason is Reason.NOT_VERIFIED


def test_in_the_end_ksm_rests_before_the_first_vm_is_separated(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """To separate VMs takes minutes, and nobody keeps out those that start meanwhile."""
    host.reconcile()
    runs = runs_seen(host, monkeypatch)
    assert host.lever.undo(host.domains, host.seen()).ok
    assert runs
    assert set(runs) == {"0"}


def full_disk(mark: Mark) -> None:
    raise StoreError("the disk is full")


def test_in_the_end_ksm_rests_though_the_store_takes_no_mark(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.reconcile()
    monkeypatch.setattr(host.ledger, "put", full_disk)
    with pytest.raises(StoreError):
        host.lever.undo(host.domains, host.seen())
    assert host.knob("run") == "0"
    assert MERGE_KNOB in {mark.knob for mark in host.ledger.all()}


def unreadable(*_: object) -> None:
    raise StoreError("the database does not answer")


@pytest.mark.parametrize("moment", ["arrived", "stopping", "a pass"])
@pytest.mark.parametrize("began", ["here", "before a restart"])
def test_ksm_rests_though_the_store_cannot_be_read(
    host: Host, monkeypatch: pytest.MonkeyPatch, moment: str, began: str
) -> None:
    host.reconcile()
    if began != "here":
        host.lever = host.make()
        host.reconcile()
    assert host.knob("run") == "1"
    for name in ("get", "all", "put", "remove"):
        monkeypatch.setattr(host.ledger, name, unreadable)
    if moment == "a pass":
        with pytest.raises(StoreError):
            host.reconcile()
    else:
        getattr(host.lever, moment)()
        wait_for(lambda: host.knob("run") == "0", WAIT_S, "KSM to rest")
    assert host.knob("run") == "0"


def test_ksm_of_somebody_else_goes_on_though_the_store_cannot_be_read(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.root.write(f"{KSM}/run", "1\n")
    monkeypatch.setattr(host.ledger, "get", unreadable)
    with pytest.raises(StoreError):
        host.lever.hold()
    assert host.knob("run") == "1"


@pytest.mark.parametrize("looked", [True, False], ids=["undo", "leave"])
@pytest.mark.parametrize("reloads", [0, 1, 2])
def test_an_agent_that_stops_has_ksm_rest_while_a_pass_hangs_which_does_not_switch_it_on_again(
    host: Host, monkeypatch: pytest.MonkeyPatch, reloads: int, looked: bool
) -> None:
    """Whichever agent of this process began that pass."""
    host.reconcile()
    host.asks["c"] = "on"
    inside, go = threading.Event(), threading.Event()
    real = FakeMonitor.set

    def hangs(self, path: str, name: str, value: object) -> None:
        inside.set()
        assert go.wait(WAIT_S)
        real(self, path, name, value)

    monkeypatch.setattr(FakeMonitor, "set", hangs)
    host.root.write(f"{KSM}/sleep_millisecs", "77\n")  # which the pass writes again, before it would switch KSM on
    runner, view = HostRunner(host.lever), view_of(host.domains, {})
    planned = asking()
    planned.of_host[LeverName.DEDUP] = host.plan()
    runner.pull(view, planned)
    assert inside.wait(WAIT_S)
    for _ in range(reloads):
        runner.close()
        before, runner = runner, HostRunner(host.make())
        runner.inherit(before)
    if looked:
        assert runner.undo(view, 0.01) == ["dedup: a pass is still under way"]
    else:
        runner.leave(0.01)
    wait_for(lambda: host.knob("run") == "0", WAIT_S, "KSM to rest")
    go.set()
    assert runner.settle(WAIT_S)
    assert (host.knob("run"), host.knob("sleep_millisecs")) == ("0", "5")


def test_an_agent_that_lets_go_in_a_dry_run_or_is_reloaded_leaves_ksm_alone(host: Host) -> None:
    host.reconcile()
    for dry_run in (True, False):
        HostRunner(host.lever, dry_run=dry_run).close()
    wait_for(lambda: not any(one.name == "dedup-arrival" for one in threading.enumerate()), WAIT_S, "threads to end")
    assert host.knob("run") == "1"


def test_who_found_no_room_is_separated_once_there_is_some(full: Host) -> None:
    full.asks = {}
    full.reconcile()
    assert {mark.subject for mark in full.ledger.all()} == {"b", "c", "d"}
    full.available = 8 * GIB
    _, own = full.reconcile()
    assert own.ok
    assert (separated(full), full.available) == ({"a", "b", "c", "d"}, 5 * GIB)
    assert full.ledger.all() == ()


def ends_only_where_there_is_room(host: Host) -> None:
    """The lever's end separates the VM a, of 1 GiB that is merged, once there is room for it, and not before."""
    host.available = int(1.5 * GIB)
    assert not host.lever.undo(host.domains, host.seen()).ok
    assert host.monitors["a"].merge
    host.available = 8 * GIB
    assert host.lever.undo(host.domains, host.seen()).ok
    assert not host.monitors["a"].merge
    assert host.ledger.all() == ()


def test_who_did_not_merge_before_is_not_put_back_without_room_to_separate_it(host: Host) -> None:
    """To put its property back is to separate it."""
    host.monitors["a"] = FakeMonitor(host.root, 11, 1 * GIB, merge=False)
    host.reconcile()
    host.merged(a=1 * GIB)
    ends_only_where_there_is_room(host)


def test_who_could_not_be_taken_out_before_is_separated_in_the_end_only_where_there_is_room(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.monitors["a"] = FakeMonitor(host.root, 11, 1 * GIB, merge=False)
    host.reconcile()
    host.merged(a=1 * GIB)

    def hangs(path: str, name: str, value: object) -> None:
        raise LibvirtCallFailed("it does not answer")

    host.asks["a"] = "off"
    with monkeypatch.context() as patch:
        patch.setattr(host.monitors["a"], "set", hangs)
        host.reconcile()
    ends_only_where_there_is_room(host)


def test_ksm_separates_everything_only_in_what_the_vms_have_left(host: Host) -> None:
    host.root.write(f"{KSM}/run", "2\n")
    host.reconcile()
    host.merged(a=1 * GIB)
    host.ksm_counters(1 * GIB)  # of other programs, too
    host.available = int(2.5 * GIB)
    assert not host.lever.undo(host.domains, host.seen()).ok
    assert (separated(host) & {"a", "b"}, host.knob("run")) == ({"a", "b"}, "0")
    host.available = 8 * GIB
    assert host.lever.undo(host.domains, host.seen()).ok
    assert host.knob("run") == "2"


def test_nothing_is_separated_while_it_cannot_be_read_what_is_available(full: Host) -> None:
    full.unreadable = True
    full.asks = {"d": "on"}
    verdicts, own = full.reconcile()
    assert {(verdicts[name].answer, verdicts[name].reason) for name in "abc"} == {(Answer.FAILED, Reason.KERNEL)}
    assert own.reason is Reason.NOT_VERIFIED
    assert not full.lever.undo(full.domains, full.seen()).ok
    assert separated(full) == set()
    full.unreadable, full.available = False, 8 * GIB
    assert full.lever.undo(full.domains, full.seen()).ok
    assert separated(full) == {"a", "b", "c", "d"}


def test_ksm_rests_while_it_cannot_be_read_whether_everything_may_be_separated(host: Host) -> None:
    host.root.write(f"{KSM}/run", "2\n")
    host.reconcile()
    host.ksm_counters(1 * GIB)
    host.unreadable = True
    verdict = host.lever.undo(host.domains, host.seen())
    assert "run was 2: /proc/meminfo" in verdict.detail
    assert host.knob("run") == "0"
    assert host.ledger.get(HOST, "run") is not None


def test_what_is_available_is_read_once_for_each_vm_of_which_something_is_merged(full: Host) -> None:
    full.available = 8 * GIB
    full.domains[3] = replace(full.domains[3], process=replace(full.domains[3].process, ksm_merging=0))
    assert full.lever.undo(full.domains, full.seen()).ok
    assert full.reads == 3


def test_a_vm_whose_qemu_is_still_starting_is_not_taken_for_one_that_is_out(host: Host) -> None:
    newcomer, monitor = host.domains[2], host.monitors["c"]
    monitor.starting = True
    monitor.show()
    host.domains[2] = replace(newcomer, state=DomainState.PAUSED)
    _, own = host.reconcile()
    assert own.reason is Reason.NOT_VERIFIED
    assert host.knob("run") == "0"
    monitor.starting = False
    monitor.show()
    host.domains[2] = newcomer
    _, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert host.merging() == {"a", "b"}
    assert host.knob("run") == "1"


def test_a_paused_vm_that_was_started_without_merging_keeps_nobody_waiting(host: Host) -> None:
    host.monitors["c"] = FakeMonitor(host.root, host.domains[2].process.pid, 1 * GIB, merge=False)
    host.domains[2] = replace(host.domains[2], state=DomainState.PAUSED)
    assert host.reconcile()[1].answer is Answer.APPLIED
    assert host.knob("run") == "1"


def test_without_monitor_commands_nothing_is_touched(tmp_path) -> None:
    host = Host(tmp_path, allow_monitor_commands=False)
    verdicts, own = host.reconcile()
    assert own.reason is Reason.MONITOR_COMMANDS
    assert verdicts["a"].answer is Answer.REFUSED
    assert all(monitor.history == [] for monitor in host.monitors.values())


@pytest.mark.parametrize("manager", ["ksmtuned", "momd"])
def test_another_manager_is_a_conflict(host: Host, manager: str) -> None:
    host.root.write("proc/900/comm", f"{manager}\n")
    verdicts, own = host.reconcile()
    assert (own.answer, own.reason) == (Answer.CONFLICT, Reason.OTHER_MANAGER)
    assert manager in own.detail
    assert verdicts["a"].answer is Answer.CONFLICT
    assert host.knob("run") == "0"


def test_ksm_that_an_operator_runs_is_a_conflict_and_is_left_alone(host: Host) -> None:
    host.root.write(f"{KSM}/run", "1\n")
    _, own = host.reconcile()
    assert own.answer is Answer.CONFLICT
    assert all(monitor.history == [] for monitor in host.monitors.values())


def test_what_somebody_changed_since_is_left_to_them(host: Host) -> None:
    host.reconcile()
    host.root.write(f"{KSM}/sleep_millisecs", "77\n")
    host.asks = {}
    host.reconcile()
    assert host.knob("sleep_millisecs") == "77"
    assert host.knob("run") == "0"


def test_a_killed_agents_successor_undoes_what_it_finds_marked(host: Host) -> None:
    host.reconcile()
    host.lever = host.make()  # a new process: it knows nothing but the ledger
    host.lever.undo(host.domains, host.seen())
    assert {name: host.knob(name) for name in BEFORE} == {name: text.strip() for name, text in BEFORE.items()}
    assert host.merging() == {"a", "b", "c", "d"}
    assert host.ledger.all() == ()


def test_marks_of_an_ended_qemu_are_forgotten(host: Host) -> None:
    host.reconcile()
    host.domains = [one for one in host.domains if one.uuid != "c"]
    host.reconcile()
    assert host.ledger.get("c", "qemu merge") is None


def test_a_dry_run_says_what_it_would_do_and_does_nothing(host: Host) -> None:
    verdicts, own = host.reconcile(dry_run=True)
    assert own.answer is Answer.PLANNED
    assert "run=1" in own.detail
    assert verdicts["a"].answer is Answer.PLANNED
    assert "huge pages" in verdicts["a"].detail
    assert host.knob("run") == "0"
    assert host.ledger.all() == ()
    assert all(monitor.history == [] for monitor in host.monitors.values())


def test_the_scan_speed_is_marked_before_the_advisor_may_move_it(tmp_path) -> None:
    host = Host(tmp_path)
    host.reconcile()  # a plain file does not read back as sysfs does: writing the advisor itself fails here
    mark = host.ledger.get(HOST, "pages_to_scan")
    assert mark is not None
    assert mark.before == "100"


def test_a_pace_of_its_own_is_written_as_the_plan_has_it_and_goes_back_to_what_was_before(tmp_path) -> None:
    host = Host(tmp_path, advisor="adaptive", target_scan_time=None, max_cpu=None)
    for pace, pages, sleep in ((Pace.FAST, "5000", "20"), (Pace.SLOW, "100", "1000"), (Pace.FAST, "5000", "20")):
        plan = replace(host.plan(), pace=pace)
        host.lever.reconcile(plan, host.domains, host.seen(), dry_run=False)
        assert (host.knob("run"), host.knob("pages_to_scan"), host.knob("sleep_millisecs")) == ("1", pages, sleep)
    host.lever.undo(host.domains, host.seen())
    assert {name: host.knob(name) for name in ("run", "pages_to_scan", "sleep_millisecs")} == {
        "run": "0",
        "pages_to_scan": "100",
        "sleep_millisecs": "25",
    }


def test_the_fast_pace_can_be_chosen() -> None:
    settings = DedupSettings(advisor="adaptive", pages_to_scan=700, sleep_millisecs=0)
    assert (KsmKnob.PAGES_TO_SCAN, "700") in settings.knobs(Pace.FAST)
    assert (KsmKnob.SLEEP_MILLISECS, "0") in settings.knobs(Pace.FAST)
    assert (KsmKnob.PAGES_TO_SCAN, "700") not in settings.knobs(Pace.SLOW)
    assert (KsmKnob.ADVISOR_MODE, "none") in settings.knobs()


def test_knobs_that_a_reload_leaves_to_the_kernel_are_put_back(tmp_path) -> None:
    host = Host(tmp_path, advisor="adaptive", target_scan_time=None, max_cpu=None)
    host.reconcile()
    assert host.knob("pages_to_scan") == "5000"
    assert host.knob("smart_scan") == "0"
    host.settings = replace(host.settings, advisor="none")
    host.lever = host.make()
    _, own = host.reconcile(dry_run=True)
    assert "pages_to_scan as it was" in own.detail
    assert host.knob("pages_to_scan") == "5000"
    _, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert (host.knob("run"), host.knob("pages_to_scan"), host.knob("sleep_millisecs")) == ("1", "100", "25")
    assert host.ledger.get(HOST, "sleep_millisecs") is None
    _, own = host.reconcile()
    assert own.answer is Answer.UNCHANGED


def test_a_reload_leaves_what_somebody_changed_and_what_the_advisor_moves(tmp_path) -> None:
    host = Host(tmp_path, advisor="adaptive", target_scan_time=None, max_cpu=None)
    host.as_sysfs()
    host.reconcile()
    host.root.write(f"{KSM}/sleep_millisecs", "77\n")
    host.settings = replace(host.settings, advisor="scan-time")
    host.lever = host.make()
    _, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert host.knob("sleep_millisecs") == "77"
    assert host.ledger.get(HOST, "sleep_millisecs") is None
    assert host.knob("pages_to_scan") == "5000"  # the advisor's from now on
    host.lever.undo(host.domains, host.seen())
    assert (host.knob("pages_to_scan"), host.ledger.all()) == ("100", ())


def test_what_an_operator_set_between_two_paces_is_what_goes_back(tmp_path) -> None:
    host = Host(tmp_path, advisor="adaptive", target_scan_time=None, max_cpu=None)
    host.reconcile()
    host.root.write(f"{KSM}/sleep_millisecs", "77\n")
    host.lever.reconcile(replace(host.plan(), pace=Pace.SLOW), host.domains, host.seen(), dry_run=False)
    assert host.knob("sleep_millisecs") == "1000"
    host.lever.undo(host.domains, host.seen())
    assert (host.knob("sleep_millisecs"), host.knob("pages_to_scan")) == ("77", "100")


def test_a_write_that_the_kernel_refuses_does_not_make_memhints_own_value_an_operators(tmp_path) -> None:
    host = Host(tmp_path, advisor="adaptive", target_scan_time=None, max_cpu=None)
    host.as_sysfs()
    host.reconcile()
    host.root.kernel.refused = "sleep_millisecs"
    slow = replace(host.plan(), pace=Pace.SLOW)
    for _ in range(2):
        own = host.lever.reconcile(slow, host.domains, host.seen(), dry_run=False).host
        assert own.answer is Answer.FAILED
    host.root.kernel.refused = ""
    host.settings = replace(host.settings, sleep_millisecs=33)
    host.lever = host.make()
    host.reconcile()
    assert host.knob("sleep_millisecs") == "33"
    host.lever.undo(host.domains, host.seen())
    assert {name: host.knob(name) for name in BEFORE} == {name: text.strip() for name, text in BEFORE.items()}


class Killed(BaseException):
    """The agent ends here."""


@pytest.mark.parametrize("further", [False, True])
@pytest.mark.parametrize("knob", ["pages_to_scan", "sleep_millisecs"])
def test_a_pace_that_an_agent_was_killed_over_is_no_operator_s(
    tmp_path, monkeypatch: pytest.MonkeyPatch, knob: str, further: bool
) -> None:
    host = Host(tmp_path, advisor="adaptive", target_scan_time=None, max_cpu=None)
    host.reconcile()
    write = KernelRoot.write_text

    def killed(root: KernelRoot, relative: str, text: str) -> None:
        if relative.endswith(knob):
            raise Killed
        write(root, relative, text)

    host.settings = replace(host.settings, pages_to_scan=700, sleep_millisecs=33)
    host.lever = host.make()
    with monkeypatch.context() as patch:
        patch.setattr(KernelRoot, "write_text", killed)
        with pytest.raises(Killed):
            host.reconcile()
    host.lever = host.make()
    if further:
        host.reconcile()
        assert (host.knob("pages_to_scan"), host.knob("sleep_millisecs")) == ("700", "33")
    host.lever.undo(host.domains, host.seen())
    assert {name: host.knob(name) for name in BEFORE} == {name: text.strip() for name, text in BEFORE.items()}
    assert host.ledger.all() == ()


def test_the_scan_speed_stays_with_an_advisor_that_was_there_before(tmp_path) -> None:
    """The kernel would answer EINVAL, and the mark would stay for ever."""
    host = Host(tmp_path, advisor="adaptive", target_scan_time=None, max_cpu=None)
    host.as_sysfs()
    host.root.write(f"{KSM}/advisor_mode", "none [scan-time]\n")
    host.reconcile()
    assert host.knob("advisor_mode") == "[none] scan-time"
    verdict = host.lever.undo(host.domains, host.seen())
    assert verdict.answer is Answer.APPLIED
    assert (host.knob("advisor_mode"), host.knob("pages_to_scan")) == ("none [scan-time]", "5000")
    assert host.ledger.all() == ()
