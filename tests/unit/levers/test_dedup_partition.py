"""The dedup lever on a kernel whose KSM has partitions: each VM is in its own group's before it merges."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from memhint.kernel.errors import WriteRejected
from memhint.kernel.root import KernelRoot
from memhint.levers.dedup_partition import PARTITION_KNOB
from memhint.objects.domain import DomainState
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason
from memhint.planner.dedup import plan_dedup
from memhint.planner.dedup_partitions import apart
from tests.unit import builders
from tests.unit.levers.fakes import FakeMonitor
from tests.unit.levers.test_dedup import BEFORE, KSM, Host

PLAIN = {"advisor": None, "target_scan_time": None, "max_cpu": None, "sleep_millisecs": 5, "pages_to_scan": 1000}
PROJECTS = {"a": "p1", "b": "p1", "c": "p2", "d": "p2"}


class PartitionKernel(KernelRoot):
    """Files of a kernel that takes no partition while pages of a process are merged."""

    def __init__(self, path) -> None:
        super().__init__(path)
        self.merged: dict[int, Callable[[], bool]] = {}  # by pid: whether pages of it are
        self.before_write: Callable[[int, int], None] = lambda pid, number: None
        self.denied = False

    def write_text(self, relative: str, text: str) -> None:
        words = relative.split("/")
        if words[-1] == "ksm_partition":
            pid = int(words[1])
            self.before_write(pid, int(text))
            busy = pid in self.merged and self.merged[pid]() and int(text) != int(self.read_text(relative))
            if busy and self.read_text(f"{KSM}/run").strip() != "2":
                raise WriteRejected(self.path(relative), "busy") from OSError(errno.EBUSY, "busy")
            if self.denied:
                raise WriteRejected(self.path(relative), "Operation not permitted") from OSError(errno.EPERM, "no")
        super().write_text(relative, text)


class PartitionHost(Host):
    """Two VMs each of two projects, all of which ask."""

    def __init__(self, path, **settings: object) -> None:
        super().__init__(path, **settings)
        self.asks = dict.fromkeys("abcd", "on")
        self.domains = [self.vm(name, 11 + place, PROJECTS[name]) for place, name in enumerate("abcd")]
        self.root.kernel = self.kernel = PartitionKernel(path)
        self.root.write("proc/self/ksm_partition", "0\n")
        self.root.write_all(
            KSM, {"pages_shared": "0\n", "pages_sharing": "0\n", "full_scans": "0\n", "zero_pages_only": "0\n"}
        )
        for one in self.domains:
            self.began(one)
        self.lever = self.make()

    def began(self, one) -> None:
        pid = one.process.pid
        self.root.write(f"proc/{pid}/ksm_partition", "0\n")
        self.root.write(f"proc/{pid}/stat", f"{pid} (qemu) S {' '.join('0' * 18)} 1000 0 0\n")

    def seen(self):
        run, only = int(self.knob("run")), int(self.knob("zero_pages_only"))
        return builders.host_observation(
            memory=builders.host_memory(total=16 * GIB, available=self.available),
            ksm=builders.ksm(run=run, partitions=True, empty_only=only == 1),
        )

    def plan(self):
        asks = {
            one.uuid: effective({Origin.OPERATOR: {"dedup": self.asks.get(one.uuid, "off")}}) for one in self.domains
        }
        settings = self.settings
        keeps = apart(self.seen().ksm, empty_only=settings.empty_only, empty_across=settings.empty_across)
        return plan_dedup(self.domains, asks, None, False, apart=keeps)

    def partitions(self) -> dict[str, int]:
        return {one.uuid: self.partition(one) for one in self.domains}

    def partition(self, one) -> int:
        return int(self.root.text(f"proc/{one.process.pid}/ksm_partition"))

    def put(self, name: str, number: int) -> None:
        (one,) = (each for each in self.domains if each.uuid == name)
        self.root.write(f"proc/{one.process.pid}/ksm_partition", f"{number}\n")

    def forget(self) -> None:
        """Another agent, with the marks of this one."""
        self.lever = self.make()


@pytest.fixture
def host(tmp_path) -> PartitionHost:
    return PartitionHost(tmp_path, **PLAIN)


def as_before(host: PartitionHost) -> None:
    assert set(host.partitions().values()) == {0}
    assert host.merging() == {"a", "b", "c", "d"}
    assert {name: host.knob(name) for name in BEFORE} == {name: text.strip() for name, text in BEFORE.items()}
    assert host.ledger.all() == ()


def test_all_projects_merge_each_in_its_own_partition(host: PartitionHost) -> None:
    verdicts, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert host.merging() == {"a", "b", "c", "d"}
    found = host.partitions()
    assert found["a"] == found["b"] != found["c"] == found["d"]
    assert 0 not in found.values()
    assert {verdict.answer for verdict in verdicts.values()} == {Answer.APPLIED}
    assert f"in partition {found['a']} of KSM" in verdicts["a"].detail
    verdicts, own = host.reconcile()
    assert {verdict.answer for verdict in [*verdicts.values(), own]} == {Answer.UNCHANGED}


def test_a_vm_is_in_its_partition_before_it_is_made_mergeable(host: PartitionHost, monkeypatch) -> None:
    real = FakeMonitor.set
    seen = []

    def watched(self, path: str, name: str, value: object) -> None:
        seen.append((value, int(host.root.text(f"proc/{self.pid}/ksm_partition"))))
        real(self, path, name, value)

    monkeypatch.setattr(FakeMonitor, "set", watched)
    host.reconcile()
    assert len(seen) == 4
    assert all(number for value, number in seen if value)


def test_one_that_did_not_ask_is_out_and_in_a_partition_all_the_same(host: PartitionHost) -> None:
    """QEMU's own blocks stay mergeable whatever the lever does: they are kept from other projects', too."""
    host.asks = {"a": "on", "b": "on"}
    host.reconcile()
    assert host.merging() == {"a", "b"}
    found = host.partitions()
    assert found["c"] == found["d"] not in (0, found["a"])


def test_pages_of_zeros_are_not_merged_across_projects(host: PartitionHost) -> None:
    """The zero page belongs to no partition."""
    host.reconcile()
    assert host.knob("use_zero_pages") == "0"
    host.asks = {"a": "on", "b": "on"}
    host.reconcile()
    assert host.knob("use_zero_pages") == "1"
    host.asks = dict.fromkeys("abcd", "on")
    host.settings = replace(host.settings, empty_across=True)
    host.forget()
    host.reconcile()
    assert host.knob("use_zero_pages") == "1"


def test_off_puts_everything_back(host: PartitionHost) -> None:
    host.reconcile()
    host.asks = {}
    _, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    as_before(host)


def test_a_killed_agents_successor_comes_to_the_same_numbers_and_undoes_them(host: PartitionHost) -> None:
    host.reconcile()
    found = host.partitions()
    host.forget()
    verdicts, _ = host.reconcile()
    assert host.partitions() == found
    assert verdicts["a"].ok
    host.forget()
    assert host.lever.undo(host.domains, host.seen()).ok
    as_before(host)


def test_an_agent_that_is_killed_between_mark_and_write_is_no_conflict_for_its_successor(host: PartitionHost) -> None:
    def killed(pid: int, number: int) -> None:
        if pid == 12:
            raise KeyboardInterrupt

    host.kernel.before_write = killed
    with pytest.raises(KeyboardInterrupt):
        host.reconcile()
    assert host.ledger.get("b", PARTITION_KNOB) is not None
    host.kernel.before_write = lambda pid, number: None
    host.forget()
    verdicts, _ = host.reconcile()
    assert {verdict.ok for verdict in verdicts.values()} == {True}
    assert host.partitions()["a"] == host.partitions()["b"] != 0
    host.lever.undo(host.domains, host.seen())
    as_before(host)


def test_an_agent_that_is_killed_while_it_moves_a_vm_to_another_projects(host: PartitionHost) -> None:
    host.reconcile()
    host.domains[1] = replace(host.domains[1], facts=replace(host.domains[1].facts, project="p2"))

    for calls in (1, 2):
        left = [calls]

        def killed(pid: int, number: int, left=left) -> None:
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt

        host.kernel.before_write = killed
        with pytest.raises(KeyboardInterrupt):
            host.reconcile()
        host.forget()
    host.kernel.before_write = lambda pid, number: None
    verdicts, _ = host.reconcile()
    found = host.partitions()
    assert verdicts["b"].ok
    assert found["b"] == found["c"] == found["d"] != found["a"]
    host.lever.undo(host.domains, host.seen())
    as_before(host)


def test_somebody_elses_partition_is_a_conflict_and_its_vm_stays_out(host: PartitionHost) -> None:
    host.put("b", 7)
    verdicts, own = host.reconcile()
    assert (verdicts["b"].answer, verdicts["b"].reason) == (Answer.CONFLICT, Reason.OTHER_MANAGER)
    assert "partition 7" in verdicts["b"].detail
    assert host.merging() == {"a", "c", "d"}
    assert (own.answer, host.knob("run")) == (Answer.APPLIED, "1")
    host.lever.undo(host.domains, host.seen())
    assert host.partitions() == {"a": 0, "b": 7, "c": 0, "d": 0}


def test_what_somebody_has_set_since_is_theirs(host: PartitionHost) -> None:
    host.reconcile()
    host.put("b", 7)
    verdicts, _ = host.reconcile()
    assert verdicts["b"].answer is Answer.CONFLICT
    assert host.merging() == {"a", "c", "d"}
    host.asks = {}
    host.reconcile()
    assert host.partitions()["b"] == 7
    assert host.ledger.all() == ()


def test_merged_pages_are_separated_first(host: PartitionHost) -> None:
    host.kernel.merged[11] = lambda: host.monitors["a"].merge
    verdicts, _ = host.reconcile()
    assert verdicts["a"].answer is Answer.APPLIED
    assert host.monitors["a"].history == [False, True]
    assert host.partitions()["a"] == host.partitions()["b"] != 0


def test_without_room_to_separate_them_it_stays_out_of_merging_and_nothing_runs(host: PartitionHost) -> None:
    host.kernel.merged[11] = lambda: True
    host.domains[0] = replace(host.domains[0], process=replace(host.domains[0].process, ksm_merging=700 * MIB))
    host.available = int(1.5 * GIB)
    verdicts, own = host.reconcile()
    assert own.reason is Reason.NOT_VERIFIED
    assert host.knob("run") == "0"
    assert verdicts["a"].answer is Answer.REFUSED


def test_one_whose_own_blocks_are_merged_is_not_merged_and_the_others_are(host: PartitionHost) -> None:
    host.kernel.merged[11] = lambda: True
    verdicts, own = host.reconcile()
    assert (verdicts["a"].answer, verdicts["a"].reason) == (Answer.REFUSED, Reason.PARTITION)
    assert host.merging() == {"b", "c", "d"}
    assert own.ok
    assert host.ledger.get("a", PARTITION_KNOB) is None
    assert host.partitions()["a"] == 0


def test_blocks_that_merged_meanwhile_are_separated_with_all_else_to_put_it_back(host: PartitionHost) -> None:
    host.reconcile()
    host.kernel.merged = {11: lambda: True, 13: lambda: True}
    assert host.lever.undo(host.domains, host.seen()).ok
    as_before(host)


def test_without_room_for_that_the_mark_is_kept(host: PartitionHost) -> None:
    host.reconcile()
    host.kernel.merged[11] = lambda: True
    host.root.write(f"{KSM}/pages_sharing", f"{8 * GIB // 4096}\n")
    undone = host.lever.undo(host.domains, host.seen())
    assert undone.answer is Answer.FAILED
    assert "stays in partition" in undone.detail
    assert [mark.subject for mark in host.ledger.all() if mark.knob == PARTITION_KNOB] == ["a"]
    host.root.write(f"{KSM}/pages_sharing", "0\n")
    host.kernel.merged.clear()
    host.lever.undo(host.domains, host.seen())
    assert host.partitions()["a"] == 0
    assert host.ledger.all() == ()


def test_an_agent_that_may_not_write_it_merges_nobody(host: PartitionHost) -> None:
    host.kernel.denied = True
    verdicts, _ = host.reconcile()
    assert {(one.answer, one.reason) for one in verdicts.values()} == {(Answer.FAILED, Reason.PARTITION)}
    assert "Operation not permitted" in verdicts["a"].detail
    assert host.merging() == set()


def test_one_whose_qemu_ended_in_between_stops_nobody(host: PartitionHost) -> None:
    host.root.write("proc/11/stat", f"11 (bash) S {' '.join('0' * 18)} 2000 0 0\n")  # the pid is another's by now
    verdicts, own = host.reconcile()
    assert (verdicts["a"].answer, verdicts["a"].reason) == (Answer.PENDING, Reason.NOT_RUNNING)
    assert host.partitions()["a"] == 0
    assert host.monitors["a"].history == []
    assert own.answer is Answer.APPLIED
    assert host.merging() >= {"b", "c", "d"}


def test_one_that_ends_while_it_is_read_stops_nobody(host: PartitionHost) -> None:
    host.root.write("proc/11/ksm_partition", "")
    verdicts, own = host.reconcile()
    assert verdicts["a"].reason is Reason.NOT_RUNNING
    assert own.answer is Answer.APPLIED


def test_marks_of_an_ended_qemu_are_forgotten_and_those_of_a_missed_one_are_not(host: PartitionHost) -> None:
    host.reconcile()
    host.asks = {"c": "on", "d": "on"}
    host.reconcile()
    seen = host.domains[0]
    host.domains[0] = replace(seen, process=None)
    host.reconcile()
    assert host.ledger.get("a", PARTITION_KNOB) is not None
    host.domains[0] = replace(seen, process=None, state=DomainState.SHUTOFF)
    host.reconcile()
    assert host.ledger.get("a", PARTITION_KNOB) is None


def test_one_that_asked_and_cannot_be_kept_out_is_harmless_only_in_its_own_partition(host: PartitionHost) -> None:
    host.domains[0] = replace(host.domains[0], state=DomainState.PAUSED)
    host.monitors["a"].broken = True
    _, own = host.reconcile()
    assert (own.ok, host.knob("run")) == (True, "1")
    host.lever.undo(host.domains, host.seen())
    host.put("a", 7)
    _, own = host.reconcile()
    assert own.reason is Reason.NOT_VERIFIED
    assert host.knob("run") == "0"


def test_a_dry_run_says_where_it_would_put_a_vm_and_touches_nothing(host: PartitionHost) -> None:
    verdicts, _ = host.reconcile(dry_run=True)
    assert verdicts["a"].answer is Answer.PLANNED
    assert "partition" in verdicts["a"].detail
    as_before(host)


def only(tmp_path, **settings: object) -> PartitionHost:
    return PartitionHost(tmp_path, empty_only=True, **PLAIN, **settings)


def test_empty_pages_only_are_for_one_project_at_a_time(tmp_path) -> None:
    host = only(tmp_path)
    verdicts, _ = host.reconcile()
    assert host.merging() == {"a", "b"}
    assert verdicts["c"].reason is Reason.TENANT
    assert "zero_pages_across_projects" in verdicts["c"].detail
    assert (host.knob("zero_pages_only"), host.knob("use_zero_pages")) == ("1", "1")
    host.lever.undo(host.domains, host.seen())
    assert host.knob("zero_pages_only") == "0"
    as_before(host)


def test_empty_pages_only_across_projects_where_that_is_allowed(tmp_path) -> None:
    host = only(tmp_path, empty_across=True)
    host.reconcile()
    assert host.merging() == {"a", "b", "c", "d"}
    assert host.knob("zero_pages_only") == "1"


@pytest.mark.parametrize("knob", ["zero_pages_only", "redhat_only_zero_pages"])
def test_whichever_knob_the_kernel_has_is_owned_and_put_back(tmp_path, knob: str) -> None:
    host = Host(tmp_path, empty_only=True, **PLAIN)
    host.root.write(f"{KSM}/{knob}", "0\n")
    host.seen = lambda: builders.host_observation(ksm=builders.ksm(run=int(host.knob("run")), empty_only=False))
    _, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert host.knob(knob) == "1"
    assert host.ledger.get("host", knob).before == "0"
    host.lever.undo(host.domains, host.seen())
    assert host.knob(knob) == "0"


def test_a_kernel_that_cannot_merge_empty_pages_only_merges_nothing_then(tmp_path) -> None:
    host = Host(tmp_path, **PLAIN)
    host.reconcile()
    host.settings = replace(host.settings, empty_only=True)
    host.lever = host.make()
    verdicts, own = host.reconcile()
    assert (own.answer, own.reason) == (Answer.UNSUPPORTED, Reason.KERNEL)
    assert verdicts["a"].answer is Answer.UNSUPPORTED
    assert host.knob("run") == "0"  # what it may not do any more it does not leave behind
    assert host.ledger.all() == ()
