"""The QoS lever: memory.min up the whole path, never below what others gave, and put back only while it is ours."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.memory_ledger import MemoryLedger
from memhint.kernel.errors import WriteRejected
from memhint.kernel.root import KernelRoot
from memhint.levers.qos import QosLever
from memhint.levers.qos_pass import Pass
from memhint.levers.qos_wish import QosTarget
from memhint.objects.lever import Observed
from memhint.objects.policy import QosClass
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason
from tests.unit.levers.cgroup_host import TOP, CgroupHost

SLICE = f"{TOP}/machine.slice"
NAMES = ("a", "b", "c", "d")


class Host(CgroupHost):
    def __init__(self, path) -> None:
        super().__init__(path)
        self.ledger = MemoryLedger()
        self.lever = self.make()
        self.vm("a", 11)
        self.vm("b", 12)
        self.vm("c", 13, "machine.slice/machine-gold.slice")
        self.vm("d", 14, "machine.slice/machine-gold.slice")

    def make(self) -> QosLever:
        return QosLever(self.root.kernel, self.ledger, "boot-1", lambda: 1.0, page_size=4096)

    def bring(self, ceiling: int = 100 * GIB, dry_run: bool = False, size: int = GIB, **classes: str):
        targets = [
            QosTarget(domain, QosClass(classes.get(name, "burstable")), size) for name, domain in self.domains.items()
        ]
        return self.lever.reconcile(targets, ceiling, dry_run=dry_run)

    def min_of(self, path: str) -> int:
        return int(self.text(f"{path}/memory.min"))

    def adj(self, pid: int) -> int:
        return int(self.text(f"proc/{pid}/oom_score_adj"))

    def everything(self) -> dict[str, str]:
        root = self.root.path
        kept = ("memory.min", "memory.swap.max", "oom_score_adj")
        return {str(file.relative_to(root)): file.read_text().strip() for name in kept for file in root.rglob(name)}


@pytest.fixture
def host(tmp_path) -> Host:
    return Host(tmp_path)


def test_a_guaranteed_vm_is_protected_at_every_level_and_kept_out_of_swap(host: Host) -> None:
    state = host.bring(a="guaranteed")["a"]
    home = host.homes["a"]
    assert (state.verdict.answer, state.observed, state.desired) == (Answer.APPLIED, Observed.ON, "guaranteed")
    assert [host.min_of(path) for path in (home, home.rpartition("/")[0], SLICE)] == [GIB] * 3
    assert host.text(f"{home}/memory.swap.max") == "0"
    assert host.adj(11) == -500
    assert host.min_of(host.homes["b"]) == 0


def test_what_holds_already_is_not_written_again(host: Host) -> None:
    host.bring(a="guaranteed", b="best-effort")
    states = host.bring(a="guaranteed", b="best-effort")
    assert [(states[name].verdict.answer, states[name].observed) for name in "ab"] == [
        (Answer.UNCHANGED, Observed.ON)
    ] * 2
    assert (states["c"].verdict.answer, states["c"].observed) == (Answer.UNCHANGED, Observed.OFF)


@pytest.mark.parametrize("qos", ["guaranteed", "best-effort", "burstable"])
@pytest.mark.parametrize("first", [True, False])
def test_all_marks_are_walked_as_often_for_many_vms_as_for_few(
    host: Host, qos: str, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a cycle of a host with thousands of VMs takes seconds."""
    walks: list[int] = []

    def counted(walk):
        def walked(work: Pass):
            walks.append(1)
            return walk(work)

        return walked

    for name in ("of_vms", "shared"):
        monkeypatch.setattr(Pass, name, counted(getattr(Pass, name)))
    for number in range(50):
        host.vm(f"v{number}", 100 + number)
    classes = dict.fromkeys(host.domains, qos)
    if not first:
        host.bring(**classes)
        walks.clear()
    host.bring(**classes)
    assert len(walks) <= 6


def test_levels_above_hold_the_sum_of_what_is_below(host: Host) -> None:
    host.bring(a="guaranteed", c="guaranteed", d="guaranteed")
    assert host.min_of(f"{SLICE}/machine-gold.slice") == 2 * GIB
    assert host.min_of(SLICE) == 3 * GIB


def test_a_sibling_that_somebody_else_protects_is_counted_in(host: Host) -> None:
    host.root.write(f"{host.homes['b'].rpartition('/')[0]}/memory.min", f"{2 * GIB}\n")
    host.bring(a="guaranteed")
    assert host.min_of(SLICE) == 3 * GIB


def test_a_level_that_has_more_of_somebody_else_is_left_alone(host: Host) -> None:
    host.root.write(f"{SLICE}/memory.min", f"{10 * GIB}\n")
    host.bring(a="guaranteed")
    assert host.min_of(SLICE) == 10 * GIB
    assert host.lever.undo().answer is Answer.APPLIED
    assert host.min_of(SLICE) == 10 * GIB


def test_a_level_without_a_bound_is_left_alone(host: Host) -> None:
    host.root.write(f"{SLICE}/memory.min", "max\n")
    assert host.bring(a="guaranteed")["a"].verdict.answer is Answer.APPLIED
    assert host.text(f"{SLICE}/memory.min") == "max"


def test_never_more_than_the_host_has(host: Host) -> None:
    states = host.bring(a="guaranteed", b="guaranteed", c="guaranteed", ceiling=2 * GIB)
    assert [states[name].verdict.answer for name in "abc"] == [Answer.APPLIED, Answer.APPLIED, Answer.REFUSED]
    assert states["c"].verdict.reason is Reason.HEADROOM
    assert host.min_of(SLICE) == 2 * GIB
    assert host.min_of(host.homes["c"]) == 0
    assert host.text(f"{host.homes['c']}/memory.swap.max") == "max"


def test_what_others_have_at_the_top_counts_against_the_host(host: Host) -> None:
    host.root.write(f"{TOP}/system.slice/memory.min", f"{3 * GIB}\n")
    assert host.bring(a="guaranteed", ceiling=3 * GIB)["a"].verdict.reason is Reason.HEADROOM


def test_who_has_a_guarantee_keeps_it_before_a_new_one(host: Host) -> None:
    host.bring(d="guaranteed", ceiling=GIB)
    states = host.bring(a="guaranteed", d="guaranteed", ceiling=GIB)
    assert states["d"].verdict.answer is Answer.UNCHANGED
    assert states["a"].verdict.answer is Answer.REFUSED


def test_who_leaves_a_guarantee_makes_room_in_the_same_pass(host: Host) -> None:
    host.bring(d="guaranteed", ceiling=GIB)
    states = host.bring(a="guaranteed", ceiling=GIB)
    assert states["a"].verdict.answer is Answer.APPLIED
    assert host.min_of(SLICE) == GIB
    assert host.min_of(f"{SLICE}/machine-gold.slice") == 0


def test_a_level_that_may_use_less_refuses(host: Host) -> None:
    host.root.write(f"{SLICE}/machine-gold.slice/memory.max", f"{GIB}\n")
    states = host.bring(c="guaranteed", d="guaranteed")
    assert [states[name].verdict.answer for name in "cd"] == [Answer.APPLIED, Answer.REFUSED]


@pytest.mark.parametrize("name", ["memory.max", "memory.high"])
@pytest.mark.parametrize("later", [False, True], ids=["before", "later"])
def test_a_vm_whose_own_limit_is_below_its_size_may_swap(host: Host, name: str, later: bool) -> None:
    """Without swap it would be killed at the one, and stand still at the other."""
    home, before = host.homes["a"], host.everything()
    if later:
        host.bring(a="guaranteed")
    host.root.write(f"{home}/{name}", f"{GIB - 4096}\n")
    for _ in range(2):
        state = host.bring(a="guaranteed", b="guaranteed")["a"]
        assert (state.verdict.answer, state.verdict.reason) == (Answer.REFUSED, Reason.HEADROOM)
        assert state.observed is Observed.OFF
        assert (host.text(f"{home}/memory.swap.max"), host.min_of(home), host.min_of(SLICE)) == ("max", 0, GIB)
        assert host.adj(11) == -500, "who is killed first has nothing to do with that"
    host.root.write(f"{home}/{name}", f"{GIB}\n")
    assert host.bring(a="guaranteed", b="guaranteed")["a"].verdict.answer is Answer.APPLIED
    assert (host.text(f"{home}/memory.swap.max"), host.min_of(home), host.min_of(SLICE)) == ("0", GIB, 2 * GIB)
    host.lever.undo()
    assert host.everything() == before


def test_a_vm_that_grows_beyond_its_own_limit_may_swap_again(host: Host) -> None:
    host.root.write(f"{host.homes['a']}/memory.max", f"{2 * GIB}\n")
    assert host.bring(a="guaranteed", size=2 * GIB)["a"].verdict.answer is Answer.APPLIED
    assert host.bring(a="guaranteed", size=3 * GIB)["a"].verdict.answer is Answer.REFUSED
    assert host.text(f"{host.homes['a']}/memory.swap.max") == "max"


def test_a_dry_run_says_what_a_lower_limit_takes_back_and_writes_nothing(host: Host) -> None:
    host.bring(a="guaranteed")
    host.root.write(f"{host.homes['a']}/memory.max", f"{GIB // 2}\n")
    before, marks = host.everything(), host.ledger.all()
    assert host.bring(a="guaranteed", dry_run=True)["a"].verdict.answer is Answer.REFUSED
    assert (host.everything(), host.ledger.all()) == (before, marks)


@pytest.mark.parametrize("level", ["scope", "slice"])
def test_where_a_level_above_is_lowered_later_as_many_keep_their_guarantee_as_fit(host: Host, level: str) -> None:
    host.bring(a="guaranteed", b="guaranteed")
    if level == "scope":
        host.root.write(f"{host.homes['a'].rpartition('/')[0]}/memory.max", f"{GIB // 2}\n")
    else:
        host.root.write(f"{SLICE}/memory.max", f"{GIB + GIB // 2}\n")
    for _ in range(2):
        states = host.bring(a="guaranteed", b="guaranteed")
        assert [states[name].verdict.answer for name in "ab"] == [Answer.REFUSED, Answer.UNCHANGED]
        assert [host.text(f"{host.homes[name]}/memory.swap.max") for name in "ab"] == ["max", "0"]
        assert (host.min_of(host.homes["a"]), host.min_of(SLICE)) == (0, GIB)


def test_a_size_is_rounded_to_whole_pages(host: Host) -> None:
    host.bring(a="guaranteed", size=GIB + 1)
    assert host.min_of(host.homes["a"]) == GIB + 4096


def test_a_grown_vm_gets_more_and_a_shrunk_one_less(host: Host) -> None:
    for size in (GIB, 3 * GIB, 2 * GIB):
        host.bring(a="guaranteed", b="guaranteed", size=size)
        assert host.min_of(SLICE) == 2 * size
    host.lever.undo()
    assert host.min_of(SLICE) == 0


@pytest.mark.parametrize(("before", "after"), [(0, 500), (200, 700), (-900, -400), (900, 1000)])
def test_best_effort_is_killed_earlier_than_it_was(host: Host, before: int, after: int) -> None:
    host.process("b", 12, adj=before)
    host.bring(b="best-effort")
    assert host.adj(12) == after
    host.bring(b="best-effort")
    assert host.adj(12) == after
    host.bring(b="burstable")
    assert host.adj(12) == before


@pytest.mark.parametrize(("before", "after"), [(0, -500), (300, -200), (-700, -999), (-999, -999)])
def test_guaranteed_is_killed_later_but_never_made_unkillable(host: Host, before: int, after: int) -> None:
    host.process("a", 11, adj=before)
    host.bring(a="guaranteed")
    assert host.adj(11) == after


def test_a_process_that_somebody_made_unkillable_stays_so(host: Host) -> None:
    for name, pid in (("a", 11), ("b", 12)):
        host.process(name, pid, adj=-1000)
    states = host.bring(a="guaranteed", b="best-effort")
    assert (host.adj(11), host.adj(12)) == (-1000, -1000)
    assert states["a"].verdict.answer is Answer.APPLIED
    assert states["b"].verdict.answer is Answer.CONFLICT


def test_from_one_class_to_another_counts_from_what_was_there(host: Host) -> None:
    host.process("a", 11, adj=100)
    host.bring(a="best-effort")
    host.bring(a="guaranteed")
    assert host.adj(11) == -400
    host.bring(a="best-effort")
    assert host.adj(11) == 600
    assert host.min_of(SLICE) == host.min_of(host.homes["a"]) == 0
    assert host.text(f"{host.homes['a']}/memory.swap.max") == "max"


def test_a_dry_run_writes_nothing_and_plans_one_vm_on_top_of_the_other(host: Host) -> None:
    before = host.everything()
    states = host.bring(a="guaranteed", b="guaranteed", c="best-effort", ceiling=GIB, dry_run=True)
    assert host.everything() == before
    assert not host.ledger.marks
    assert [states[name].verdict.answer for name in "abc"] == [Answer.PLANNED, Answer.REFUSED, Answer.PLANNED]
    assert states["a"].observed is Observed.OFF


@pytest.mark.parametrize("level", ["own", "slice"])
def test_what_was_put_back_by_somebody_is_set_again(host: Host, level: str) -> None:
    host.bring(a="guaranteed")
    path = host.homes["a"] if level == "own" else SLICE
    host.root.write(f"{path}/memory.min", "0\n")
    assert host.bring(a="guaranteed")["a"].verdict.answer is Answer.APPLIED
    assert host.min_of(path) == GIB


@pytest.mark.parametrize("level", ["own", "slice"])
def test_a_lower_value_of_somebody_else_is_a_conflict_and_stays(host: Host, level: str) -> None:
    host.bring(a="guaranteed")
    path = host.homes["a"] if level == "own" else SLICE
    host.root.write(f"{path}/memory.min", f"{GIB // 2}\n")
    state = host.bring(a="guaranteed")["a"]
    assert (state.verdict.answer, state.verdict.reason) == (Answer.CONFLICT, Reason.OTHER_MANAGER)
    assert host.lever.undo().answer is Answer.CONFLICT
    assert host.min_of(path) == GIB // 2
    assert not host.ledger.marks


def test_a_process_that_cannot_be_looked_at_keeps_no_other_from_its_class_or_from_being_put_back(host: Host) -> None:
    """Whether that pid is still the VM's is not known: nothing is written there."""
    before = host.everything()
    host.bring(a="guaranteed", b="best-effort")
    set_for_b = {name: text for name, text in host.everything().items() if "proc/12/" in name}
    stat = host.text("proc/12/stat")
    host.root.write("proc/12/stat", "what is this\n")
    gone = host.domains.pop("b")
    assert host.bring(a="guaranteed", c="guaranteed")["c"].verdict.answer is Answer.APPLIED
    verdict = host.lever.undo()
    assert (verdict.answer, verdict.reason) == (Answer.FAILED, Reason.KERNEL)
    assert "proc/12/stat" in verdict.detail
    assert host.everything() == {**before, **set_for_b}
    host.domains["b"] = gone
    host.root.write("proc/12/stat", stat)
    assert host.lever.undo().answer is Answer.APPLIED
    assert host.everything() == before


def test_a_higher_value_of_somebody_else_is_theirs_from_then_on(host: Host) -> None:
    host.bring(a="guaranteed")
    host.root.write(f"{SLICE}/memory.min", f"{5 * GIB}\n")
    assert host.bring(a="guaranteed", b="guaranteed")["b"].verdict.answer is Answer.APPLIED
    assert host.min_of(SLICE) == 5 * GIB
    host.lever.undo()
    assert host.min_of(SLICE) == 5 * GIB
    assert host.min_of(host.homes["b"]) == 0


def test_somebodys_swap_limit_and_kill_order_are_conflicts(host: Host) -> None:
    host.bring(a="guaranteed", b="best-effort")
    host.root.write(f"{host.homes['a']}/memory.swap.max", f"{MIB}\n").write("proc/12/oom_score_adj", "7\n")
    states = host.bring(a="guaranteed", b="best-effort")
    assert [states[name].verdict.answer for name in "ab"] == [Answer.CONFLICT] * 2
    host.lever.undo()
    assert host.text(f"{host.homes['a']}/memory.swap.max") == str(MIB)
    assert host.adj(12) == 7


def test_undo_restores_all_and_a_successor_knows_what_it_owns(host: Host) -> None:
    host.root.write(f"{SLICE}/memory.min", f"{100 * MIB}\n")
    before = host.everything()
    host.bring(a="guaranteed", c="guaranteed", b="best-effort")
    host.lever = host.make()
    assert host.lever.undo().answer is Answer.APPLIED
    assert host.everything() == before
    assert not host.ledger.marks
    assert host.lever.undo().answer is Answer.UNCHANGED


def test_undo_that_the_kernel_refuses_keeps_its_mark(host: Host) -> None:
    host.bring(b="best-effort")
    path = host.root.path / "proc/12/oom_score_adj"
    path.unlink()
    path.mkdir()
    assert host.lever.undo().answer is Answer.FAILED
    assert host.ledger.marks


def test_marks_do_not_outlive_their_process(host: Host) -> None:
    host.bring(a="guaranteed", b="guaranteed")
    host.end("a")
    host.bring(b="guaranteed")
    assert {mark.subject for mark in host.ledger.all()} == {"b", "cgroups"}


def test_a_vm_that_is_missing_from_the_list_keeps_its_class(host: Host) -> None:
    host.bring(a="guaranteed", b="guaranteed")
    gone = host.domains.pop("a")
    host.bring(b="guaranteed")
    assert host.min_of(host.homes["a"]) == GIB
    assert host.min_of(SLICE) == 2 * GIB
    host.domains["a"] = gone
    assert host.bring(a="guaranteed", b="guaranteed")["a"].verdict.answer is Answer.UNCHANGED


def test_a_cgroup_that_was_made_anew_is_not_lowered_to_what_an_older_one_had(host: Host) -> None:
    host.root.write(f"{SLICE}/memory.min", f"{5 * GIB}\n")
    host.bring(a="guaranteed", size=6 * GIB)
    mark = host.ledger.get("cgroups", f"memory.min of {SLICE}")
    assert mark.before == str(5 * GIB)
    host.end("a")
    # systemd stops an empty slice and makes another of the same name
    host.ledger.marks[("cgroups", mark.knob)] = type(mark)(
        mark.subject, mark.knob, mark.before, mark.after, "boot-1:1", mark.at
    )
    host.root.write(f"{SLICE}/memory.min", "0\n")
    host.bring()
    assert not host.ledger.marks
    assert host.min_of(SLICE) == 0


def test_a_level_stays_raised_no_longer_than_its_vms_run(host: Host) -> None:
    host.bring(a="guaranteed", b="guaranteed")
    host.end("a")
    host.root.write(f"{host.homes['a'].rpartition('/')[0]}/memory.min", "0\n")  # libvirt takes the scope away
    host.bring(b="guaranteed")
    assert host.min_of(SLICE) == GIB
    host.bring()
    assert host.min_of(SLICE) == 0
    assert not host.ledger.marks


def test_version_1_is_unsupported_says_what_it_has_and_orders_the_killing(host: Host) -> None:
    host.root.write("proc/self/mounts", "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n")
    host.root.write("sys/fs/cgroup/memory/machine/a/memory.limit_in_bytes", "9223372036854771712\n")
    host.root.write("proc/11/cgroup", "5:cpu:/x\n4:memory:/machine/a\n1:name=systemd:/\n0::/machine/a\n")
    state = host.bring(a="guaranteed")["a"]
    assert (state.verdict.answer, state.observed) == (Answer.UNSUPPORTED, Observed.UNSUPPORTED)
    assert "memory.swappiness" in state.verdict.detail
    assert host.adj(11) == -500
    assert host.bring(b="best-effort")["b"].verdict.answer is Answer.APPLIED


@pytest.mark.parametrize("missing", ["memory.min", "memory.swap.max"])
def test_a_kernel_without_the_file_is_unsupported_and_nothing_is_half_done(host: Host, missing: str) -> None:
    host.root.remove(f"{host.homes['a']}/{missing}")
    before = {name: text for name, text in host.everything().items() if "oom" not in name}
    state = host.bring(a="guaranteed")["a"]
    assert state.verdict.answer is Answer.UNSUPPORTED
    assert {name: text for name, text in host.everything().items() if "oom" not in name} == before


def test_a_process_in_the_root_cgroup_or_in_one_of_many_is_unsupported(host: Host) -> None:
    host.root.write("proc/11/cgroup", "0::/\n")
    host.cgroup(f"{TOP}/system.slice/libvirtd.service", "12\n")
    host.root.write("proc/12/cgroup", "0::/system.slice/libvirtd.service\n")
    host.root.write(f"{host.homes['c']}/cgroup.procs", "13\n14\n")
    states = host.bring(a="guaranteed", b="guaranteed", c="guaranteed")
    assert [states[name].verdict.reason for name in "abc"] == [
        Reason.KERNEL,
        Reason.SHARED_CGROUP,
        Reason.SHARED_CGROUP,
    ]


class Container(Host):
    """libvirt in a container makes no cgroups for its VMs: all of them are in the container's."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.scope = f"{TOP}/system.slice/docker-1f.scope"
        self.root.write_all(f"{TOP}/system.slice", {"memory.max": "max\n", "memory.high": "max\n"})
        self.cgroup(self.scope)
        for name, pid in (("a", 11), ("b", 12)):
            self.root.write(f"proc/{pid}/cgroup", "0::/system.slice/docker-1f.scope\n")
            self.root.write(f"proc/{pid}/comm", "qemu-system-x86\n")
            self.homes[name] = self.scope
        self.inside(11)

    def inside(self, *pids: int) -> None:
        self.root.write(f"{self.scope}/cgroup.procs", "".join(f"{pid}\n" for pid in pids))

    def of_scope(self) -> tuple[int, str]:
        return self.min_of(self.scope), self.text(f"{self.scope}/memory.swap.max")


@pytest.mark.parametrize("known", [True, False])
def test_what_comes_to_share_a_guaranteed_vm_s_cgroup_later_takes_it_back(tmp_path: Path, known: bool) -> None:
    host = Container(tmp_path)
    other = host.domains["b"] if known else host.domains.pop("b")
    assert host.bring(a="guaranteed")["a"].verdict.answer is Answer.APPLIED
    assert host.of_scope() == (GIB, "0")
    host.inside(11, 12)
    for _ in range(2):
        state = host.bring(a="guaranteed")["a"]
        assert (state.verdict.answer, state.verdict.reason) == (Answer.UNSUPPORTED, Reason.SHARED_CGROUP)
        assert state.observed is Observed.UNSUPPORTED
        assert host.of_scope() == (0, "max")
        assert host.min_of(f"{TOP}/system.slice") == 0
        assert host.adj(11) == -500
    host.domains["b"] = other
    host.end("b")
    host.inside(11)
    assert host.bring(a="guaranteed")["a"].verdict.answer is Answer.APPLIED
    assert host.of_scope() == (GIB, "0")


def test_a_helper_in_the_vm_s_own_cgroup_is_no_other_vm(tmp_path: Path) -> None:
    host = Container(tmp_path)
    host.bring(a="guaranteed")
    host.root.write("proc/77/comm", "swtpm\n")
    host.inside(11, 77)
    assert host.bring(a="guaranteed")["a"].verdict.answer is Answer.UNCHANGED


@pytest.mark.parametrize("undone", [False, True])
def test_a_cgroup_that_outlives_its_vm_is_as_it_was(tmp_path: Path, undone: bool) -> None:
    """Else the next VM there may not swap, and nobody knows why."""
    host = Container(tmp_path)
    host.bring(a="guaranteed")
    host.end("a")
    if undone:
        assert host.lever.undo().answer is Answer.APPLIED
    else:
        host.bring()
    assert host.of_scope() == (0, "max")
    assert host.min_of(f"{TOP}/system.slice") == 0
    assert not host.ledger.marks


def test_what_somebody_set_of_a_cgroup_that_outlives_its_vm_stays(tmp_path: Path) -> None:
    host = Container(tmp_path)
    host.bring(a="guaranteed")
    host.end("a")
    host.root.write(f"{host.scope}/memory.swap.max", f"{MIB}\n")
    host.bring()
    assert host.of_scope() == (0, str(MIB))
    assert not host.ledger.marks


def test_a_cgroup_that_outlives_its_vm_and_cannot_be_written_is_tried_again(tmp_path: Path, monkeypatch) -> None:
    host = Container(tmp_path)
    host.bring(a="guaranteed")
    host.end("a")
    with monkeypatch.context() as patch:
        patch.setattr(KernelRoot, "write_text", lambda root, name, text: (_ for _ in ()).throw(WriteRejected(name, "")))
        host.bring()
        assert host.lever.undo().answer is Answer.FAILED
        assert host.of_scope() == (GIB, "0")
    host.bring()
    assert host.of_scope() == (0, "max")
    assert not host.ledger.marks


def test_a_vm_that_does_not_run_waits(host: Host) -> None:
    host.end("a")
    host.domains["a"] = replace(host.vm("a", 21), process=None)
    state = host.bring(a="guaranteed")["a"]
    assert (state.verdict.answer, state.observed) == (Answer.PENDING, Observed.UNKNOWN)


def test_a_process_that_ends_in_mid_pass_costs_the_others_nothing(host: Host) -> None:
    gone = host.domains["a"]
    host.end("a")
    host.domains["a"] = gone
    states = host.bring(a="guaranteed", b="guaranteed")
    assert states["a"].verdict.reason is Reason.NOT_RUNNING
    assert states["b"].verdict.answer is Answer.APPLIED


def test_a_write_that_fails_is_failed_and_the_next_pass_ends_it_well(host: Host, monkeypatch) -> None:
    write = KernelRoot.write_text

    def refuse(root: KernelRoot, name: str, text: str) -> None:
        if name.endswith("libvirt/memory.min"):
            raise WriteRejected(name, "no")
        write(root, name, text)

    with monkeypatch.context() as patch:
        patch.setattr(KernelRoot, "write_text", refuse)
        assert host.bring(a="guaranteed")["a"].verdict.answer is Answer.FAILED
    assert host.min_of(host.homes["a"]) == host.min_of(SLICE) == 0
    assert host.bring(a="guaranteed")["a"].verdict.answer is Answer.APPLIED
    assert host.min_of(SLICE) == GIB


class Killed(BaseException):
    """The agent ends here."""


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("fault", [WriteRejected("a file", "no"), Killed()])
def test_a_further_value_that_was_never_written_leaves_the_first_to_memhint(
    host: Host, monkeypatch, fault: BaseException, number: int, undone: bool
) -> None:
    """Whichever of the files of a VM that grows, or changes its class, it is."""
    before = host.everything()
    host.bring(a="guaranteed", b="best-effort")
    write, left = KernelRoot.write_text, [number]

    def end(root: KernelRoot, name: str, text: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise fault
        write(root, name, text)

    wished = {"a": "guaranteed", "b": "guaranteed", "size": 2 * GIB}
    with monkeypatch.context() as patch:
        patch.setattr(KernelRoot, "write_text", end)
        with contextlib.suppress(Killed):
            host.bring(**wished)
    host.lever = host.make()
    if not undone:
        assert host.bring(**wished)["a"].verdict.ok
        assert (host.min_of(host.homes["a"]), host.min_of(SLICE), host.adj(12)) == (2 * GIB, 4 * GIB, -500)
    assert host.lever.undo().answer is Answer.APPLIED
    assert (host.everything(), host.ledger.all()) == (before, ())


CLASS = st.sampled_from([str(one) for one in QosClass])


@settings(max_examples=30)
@given(
    steps=st.lists(
        st.tuples(st.fixed_dictionaries({name: CLASS for name in NAMES}), st.integers(1, 5), st.integers(1, 12)),
        min_size=1,
        max_size=6,
    ),
    own=st.dictionaries(st.sampled_from(["slice", "gold", *NAMES]), st.integers(0, 4), max_size=3),
)
def test_whatever_the_classes_were_sums_hold_and_undo_restores(steps, own) -> None:
    with tempfile.TemporaryDirectory() as folder:
        host = Host(Path(folder))
        gold = f"{SLICE}/machine-gold.slice"
        for name, size in own.items():
            path = {"slice": SLICE, "gold": gold}.get(name) or host.homes[name]
            host.root.write(f"{path}/memory.min", f"{size * GIB}\n")
        before = host.everything()
        for classes, size, ceiling in steps:
            states = host.bring(**classes, size=size * GIB, ceiling=ceiling * GIB)
            held = [name for name in NAMES if states[name].observed is Observed.ON and classes[name] == "guaranteed"]
            for level in (SLICE, gold) if held else ():
                below = [name for name in held if host.homes[name].startswith(f"{level}/")]
                assert host.min_of(level) >= sum(host.min_of(host.homes[name]) for name in below)
            for name in held:
                assert host.min_of(host.homes[name]) >= size * GIB
            now = host.everything()
            assert all(int(now[name]) >= int(text) for name, text in before.items() if name.endswith("memory.min"))
        assert host.lever.undo().answer in (Answer.APPLIED, Answer.UNCHANGED)
        assert host.everything() == before
        assert not host.ledger.marks
