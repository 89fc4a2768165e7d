from __future__ import annotations

import errno
import os

import pytest

from memhint.kernel.errors import (
    InterfaceMalformed,
    InterfaceMissing,
    InterfaceUnreadable,
    KernelInterfaceError,
    ProcessGone,
    WriteIncomplete,
    WriteRejected,
)
from memhint.objects.gap import GapReason

from .fake_root import FakeRoot


def fail_reads(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def read(fd: int, size: int) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "read", read)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InterfaceMissing, GapReason.UNSUPPORTED),
        (InterfaceUnreadable, GapReason.UNREADABLE),
        (InterfaceMalformed, GapReason.MALFORMED),
        (ProcessGone, GapReason.GONE),
        (WriteRejected, GapReason.UNREADABLE),
        (WriteIncomplete, GapReason.UNREADABLE),
    ],
)
def test_each_error_leaves_the_gap_of_its_reason(error: type[KernelInterfaceError], reason: GapReason) -> None:
    gap = error("/proc/x", "why").gap("ksm")
    assert (gap.what, gap.reason, gap.detail) == ("ksm", reason, "/proc/x: why")


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.EACCES, InterfaceUnreadable),
        (errno.EIO, InterfaceUnreadable),
        (errno.EOPNOTSUPP, InterfaceMissing),
        (errno.ENODEV, InterfaceMissing),
        (errno.ESRCH, ProcessGone),
    ],
)
def test_the_errno_of_a_read_decides_the_error(
    fake: FakeRoot, monkeypatch: pytest.MonkeyPatch, number: int, error: type[KernelInterfaceError]
) -> None:
    fake.write("a", "1")
    fail_reads(monkeypatch, number)
    with pytest.raises(error) as caught:
        fake.kernel.read_text("a")
    assert caught.value.path == str(fake.path / "a")


def test_a_missing_file_is_missing(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        fake.kernel.read_text("proc/meminfo")
    with pytest.raises(InterfaceMissing):
        list(fake.kernel.lines("proc/1/smaps"))
    with pytest.raises(InterfaceMissing):
        fake.kernel.names("proc")
    with pytest.raises(InterfaceMissing):
        fake.kernel.directories("proc")


def test_a_directory_is_unreadable_as_a_file(fake: FakeRoot) -> None:
    (fake.path / "d").mkdir()
    with pytest.raises(InterfaceUnreadable):
        fake.kernel.read_text("d")
    with pytest.raises(InterfaceUnreadable):
        list(fake.kernel.lines("d"))


def test_a_leading_slash_stays_below_the_root(fake: FakeRoot) -> None:
    fake.write("sys/a", "7\n")
    assert fake.kernel.read_int("/sys/a") == 7


def test_a_text_longer_than_one_read_is_whole(fake: FakeRoot) -> None:
    text = "0123456789" * 5000
    assert fake.write("a", text).kernel.read_text("a") == text


def test_a_text_of_exactly_the_limit_is_read_and_one_byte_more_is_malformed(fake: FakeRoot) -> None:
    assert fake.write("a", "x" * 100).kernel.read_text("a", limit=100) == "x" * 100
    with pytest.raises(InterfaceMalformed):
        fake.kernel.read_text("a", limit=99)


def test_bytes_that_are_not_utf8_are_replaced(fake: FakeRoot) -> None:
    (fake.path / "a").write_bytes(b"a\xffb\nc\xfe")
    assert fake.kernel.read_text("a") == "a\ufffdb\nc\ufffd"
    assert list(fake.kernel.lines("a")) == ["a\ufffdb", "c\ufffd"]


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_0", "0x10", "٣", "²", "1 2", "9" * 21])
def test_only_a_plain_decimal_is_a_number(fake: FakeRoot, text: str) -> None:
    with pytest.raises(InterfaceMalformed):
        fake.write("a", text).kernel.read_int("a")


def test_words_are_split_at_any_white_space(fake: FakeRoot) -> None:
    assert fake.write("a", " 1\t2\n3 \n").kernel.read_words("a") == ["1", "2", "3"]


def test_directories_leaves_out_files_and_links(fake: FakeRoot) -> None:
    fake.write("g/b/x", "").write("g/a/x", "").write("g/file", "")
    (fake.path / "g/link").symlink_to(fake.path / "g/a")
    assert fake.kernel.directories("g") == ["a", "b"]
    assert fake.kernel.names("g") == ["a", "b", "file", "link"]


def test_a_write_replaces_the_whole_value(fake: FakeRoot) -> None:
    fake.write("knob", "1000\n").kernel.write_text("knob", "5\n")
    assert fake.text("knob") == "5\n"


def test_a_write_never_makes_a_file(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        fake.kernel.write_text("knob", "5\n")
    assert not fake.kernel.exists("knob")


def test_a_refused_value_is_a_rejected_write(fake: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(fd: int, data: bytes) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    fake.write("knob", "1\n")
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(WriteRejected, match="'7'"):
        fake.kernel.write_text("knob", "7")


def test_a_short_write_is_a_rejected_write(fake: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.write("knob", "1\n")
    monkeypatch.setattr(os, "write", lambda fd, data: 1)
    with pytest.raises(WriteRejected, match="1 of 3"):
        fake.kernel.write_text("knob", "200")


def test_a_write_of_which_a_part_was_done_is_told_apart(fake: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(fd: int, data: bytes) -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    fake.write("memory.reclaim", "")
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(WriteIncomplete):
        fake.kernel.write_text("memory.reclaim", "4096")


def test_a_directory_that_was_made_anew_has_another_inode(fake: FakeRoot) -> None:
    fake.write("a/x", "").write("b/x", "")
    assert fake.kernel.inode("a") == fake.kernel.inode("a") != fake.kernel.inode("b")
    with pytest.raises(InterfaceMissing):
        fake.kernel.inode("c")
