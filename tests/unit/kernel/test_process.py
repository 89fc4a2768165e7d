from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, InterfaceUnreadable, ProcessGone
from memhint.kernel.process import (
    find_by_comm,
    instance_runs,
    oom_score_adj,
    pid_from_file,
    process_is,
    process_memory,
)
from memhint.kernel.root import READ_AT_MOST, KernelRoot
from memhint.objects.domain import ProcessMemory
from memhint.objects.units import KIB

from . import recorded
from .fake_root import FakeRoot

PID = 4711


class EndingRoot(KernelRoot):
    """A process that ends after its status was read."""

    def read_text(self, relative: str, limit: int = READ_AT_MOST) -> str:
        text = super().read_text(relative, limit)
        if relative.endswith("/status"):
            directory = Path(self.path(relative)).parent
            for file in directory.iterdir():
                file.unlink()
            directory.rmdir()
        return text


class RefusingRoot(KernelRoot):
    """A kernel that shows ksm_stat to nobody."""

    def read_text(self, relative: str, limit: int = READ_AT_MOST) -> str:
        if relative.endswith("/ksm_stat"):
            raise InterfaceUnreadable(self.path(relative), "Permission denied")
        return super().read_text(relative, limit)


@pytest.mark.parametrize("ksm_stat", [recorded.KSM_STAT_6_12, recorded.KSM_STAT_6_18])
def test_process_memory_is_bytes(fake: FakeRoot, ksm_stat: str) -> None:
    assert process_memory(fake.process(ksm_stat=ksm_stat).kernel, PID, 4096) == ProcessMemory(
        pid=PID,
        start_ticks=91971,
        rss=1300004 * KIB,
        swap=2048 * KIB,
        ksm_merging=500 * 4096,
        ksm_zero=300 * 4096,
        cpu=0.7,
        faults=101,
    )


@pytest.mark.parametrize(("line", "small"), [("", None), ("THP_enabled:\t1\n", False), ("THP_enabled:\t0\n", True)])
def test_a_process_that_was_started_without_huge_pages_is_told(fake: FakeRoot, line: str, small: bool | None) -> None:
    fake.process()
    fake.write(f"proc/{PID}/status", recorded.STATUS + line)
    assert process_memory(fake.kernel, PID).small_pages is small


def test_this_kernel_says_it_of_a_process_and_of_what_that_becomes(tmp_path: Path) -> None:
    script = "import ctypes, os; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); print(flush=True); os.execvp('cat', ['cat'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        other.stdin.write(b"become\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"become\n"  # it is cat by now
        seen = process_memory(KernelRoot(), other.pid)
        other.stdin.close()
    if seen.small_pages is None:
        pytest.skip("this kernel does not say: Linux before 5.0")
    assert seen.small_pages


def test_linux_6_1_has_the_merged_pages_in_a_file_of_their_own(fake: FakeRoot) -> None:
    fake.process(ksm_stat=recorded.KSM_STAT_6_1, ksm_merging_pages="77\n")
    memory = process_memory(fake.kernel, PID, 4096)
    assert (memory.ksm_merging, memory.ksm_zero) == (77 * 4096, None)


def test_a_kernel_without_ksm_stat_uses_the_older_file(fake: FakeRoot) -> None:
    fake.process(ksm_merging_pages="5\n").remove(f"proc/{PID}/ksm_stat")
    assert process_memory(fake.kernel, PID, 4096).ksm_merging == 5 * 4096


def test_a_kernel_without_ksm_is_none_not_zero(fake: FakeRoot) -> None:
    memory = process_memory(fake.process().remove(f"proc/{PID}/ksm_stat").kernel, PID)
    assert (memory.ksm_merging, memory.ksm_zero) == (None, None)


@pytest.mark.parametrize("count", ["-1", "18446744073709551615"])
def test_zero_pages_below_zero_are_unknown(fake: FakeRoot, count: str) -> None:
    fake.process(ksm_stat=f"ksm_zero_pages {count}\nksm_merging_pages 1\n")
    assert process_memory(fake.kernel, PID).ksm_zero is None


def test_a_ksm_stat_that_may_not_be_read_is_no_missing_one(fake: FakeRoot, tmp_path: Path) -> None:
    fake.process()
    with pytest.raises(InterfaceUnreadable):
        process_memory(RefusingRoot(tmp_path), PID)


@pytest.mark.parametrize(
    "comm", ["a b", ") (", "x) S 1 2 3", "((", "))", ") R 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1", "a\nb"]
)
def test_a_name_with_parentheses_does_not_move_the_start_time(fake: FakeRoot, comm: str) -> None:
    assert process_memory(fake.process(stat=recorded.stat_of(comm)).kernel, PID).start_ticks == 91971


def test_a_name_that_looks_like_a_field_does_not_count(fake: FakeRoot) -> None:
    # the kernel prints a line end in a name as backslash and n
    status = recorded.STATUS.replace("qemu-system-x86", "\\nVmRSS: 1 kB")
    assert process_memory(fake.process(status=status).kernel, PID).rss == 1300004 * KIB


def test_a_process_that_does_not_exist_is_gone(fake: FakeRoot) -> None:
    fake.process()
    with pytest.raises(ProcessGone):
        process_memory(fake.kernel, 4712)


def test_a_process_that_ends_while_it_is_read_is_gone(fake: FakeRoot, tmp_path: Path) -> None:
    fake.process()
    with pytest.raises(ProcessGone):
        process_memory(EndingRoot(tmp_path), PID)


def test_a_zombie_is_gone(fake: FakeRoot) -> None:
    with pytest.raises(ProcessGone):
        process_memory(fake.process(status=recorded.STATUS_WITHOUT_MEMORY).kernel, PID)


def test_a_process_that_gave_its_memory_back_before_ksm_stat_is_gone(fake: FakeRoot) -> None:
    with pytest.raises(ProcessGone):
        process_memory(fake.process(ksm_stat="").kernel, PID)


def test_a_living_process_without_the_file_is_missing_not_gone(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        process_memory(fake.process().remove(f"proc/{PID}/status").kernel, PID)


@pytest.mark.parametrize(
    "status",
    [
        "",
        "garbage",
        recorded.STATUS[: recorded.STATUS.index("VmRSS") + 9],
        recorded.STATUS[: recorded.STATUS.index("VmSwap")],
        recorded.STATUS.replace("1300004 kB", "1300004 MB"),
        recorded.STATUS.replace("1300004", "-1"),
    ],
)
def test_a_status_cut_short_or_garbled_is_malformed(fake: FakeRoot, status: str) -> None:
    with pytest.raises(InterfaceMalformed):
        process_memory(fake.process(status=status).kernel, PID)


@pytest.mark.parametrize("stat", ["", "4711 (qemu", "4711 (qemu) S 1 2 3", recorded.STAT.replace("91971", "x")])
def test_a_stat_without_start_time_is_malformed(fake: FakeRoot, stat: str) -> None:
    with pytest.raises(InterfaceMalformed):
        process_memory(fake.process(stat=stat).kernel, PID)


def test_pid_from_file(tmp_path: Path) -> None:
    (tmp_path / "a.pid").write_text("4711\n")
    assert pid_from_file(tmp_path / "a.pid") == 4711


@pytest.mark.parametrize("text", ["", "0\n", "-4\n", "x\n", "1 2\n"])
def test_a_pid_file_without_a_pid_is_malformed(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.pid").write_text(text)
    with pytest.raises(InterfaceMalformed):
        pid_from_file(tmp_path / "a.pid")


def test_a_missing_pid_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InterfaceMissing):
        pid_from_file(tmp_path / "a.pid")


def test_the_process_of_a_vm_has_its_uuid_as_a_word(fake: FakeRoot) -> None:
    assert process_is(fake.process().kernel, PID, recorded.UUID)


@pytest.mark.parametrize(
    "cmdline",
    ["", "bash\0", f"qemu\0-drive\0file=/images/{recorded.UUID}/disk\0", f"qemu\0-uuid\0{recorded.UUID[:-1]}0\0"],
)
def test_another_process_is_not_the_vm(fake: FakeRoot, cmdline: str) -> None:
    assert not process_is(fake.process(cmdline=cmdline).kernel, PID, recorded.UUID)


def test_no_uuid_matches_no_process(fake: FakeRoot) -> None:
    assert not process_is(fake.process().kernel, PID, "")


def test_a_process_that_ended_is_not_the_vm(fake: FakeRoot) -> None:
    assert not process_is(fake.process().kernel, 4712, recorded.UUID)


def test_find_by_comm_finds_the_lowest_pid_of_each_name(fake: FakeRoot) -> None:
    fake.process(90, comm="ksmtuned\n").process(800, comm="ksmtuned\n").process(7, comm="bash\n")
    fake.write("proc/self/comm", "momd\n").write("proc/meminfo", "")
    assert find_by_comm(fake.kernel, frozenset({"ksmtuned", "momd"})) == {"ksmtuned": 90}


def test_find_by_comm_knows_that_the_kernel_cuts_names(fake: FakeRoot) -> None:
    fake.process(90, comm="a-very-long-nam\n")
    assert find_by_comm(fake.kernel, frozenset({"a-very-long-name"})) == {"a-very-long-name": 90}


def test_find_by_comm_passes_over_a_process_that_ends(fake: FakeRoot) -> None:
    (fake.path / "proc/5").mkdir(parents=True)
    assert find_by_comm(fake.process(90, comm="momd\n").kernel, frozenset({"momd"})) == {"momd": 90}


def test_real_machine_process_memory() -> None:
    memory = process_memory(KernelRoot(), os.getpid())
    assert memory.rss > 0
    assert memory.swap >= 0
    assert memory.start_ticks == process_memory(KernelRoot(), os.getpid()).start_ticks


def test_real_machine_process_that_never_was() -> None:
    with pytest.raises(ProcessGone):
        process_memory(KernelRoot(), (1 << 22) + 1)


def test_real_machine_find_by_comm_finds_ourselves() -> None:
    comm = Path("/proc/self/comm").read_text().rstrip("\n")
    assert find_by_comm(KernelRoot(), frozenset({comm})).get(comm, 0) > 0


def test_an_instance_runs_until_another_process_has_its_pid(fake: FakeRoot) -> None:
    kernel = fake.process().kernel
    assert instance_runs(kernel, process_memory(kernel, PID).instance)
    assert not instance_runs(kernel, f"{PID}:91972")
    assert not instance_runs(kernel, "4712:91971")


@pytest.mark.parametrize("name", ["", ":", "x:1", "-1:1", "boot-1"])
def test_what_names_no_process_does_not_run(fake: FakeRoot, name: str) -> None:
    assert not instance_runs(fake.process().kernel, name)


@pytest.mark.parametrize("value", [-1000, 0, 1000])
def test_who_is_killed_first_is_a_number_with_a_sign(fake: FakeRoot, value: int) -> None:
    assert oom_score_adj(fake.process(oom_score_adj=f"{value}\n").kernel, PID) == value


@pytest.mark.parametrize("text", ["-1001\n", "1001\n", "\n", "many\n"])
def test_any_other_value_is_malformed(fake: FakeRoot, text: str) -> None:
    with pytest.raises(InterfaceMalformed):
        oom_score_adj(fake.process(oom_score_adj=text).kernel, PID)
