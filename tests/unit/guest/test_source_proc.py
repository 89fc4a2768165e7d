from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.guest.capabilities import Capabilities
from memhint.guest.errors import GuestAnswerMalformed, GuestError, GuestTimeout
from memhint.guest.files import READ_COMMANDS
from memhint.guest.protocol import GuestAgent
from memhint.guest.source_proc import ProcSource
from memhint.objects.guest import GuestSource
from memhint.objects.units import GIB, KIB, MIB
from memhint.objects.verdict import Answer

from .fake_agent import FakeAgent
from .strategies import raw_answers
from .texts import BUDDYINFO, MEMINFO


def test_free_memory_comes_in_total_and_by_order() -> None:
    guest = FakeAgent({"/proc/meminfo": MEMINFO, "/proc/buddyinfo": BUDDYINFO})
    memory = ProcSource().read(GuestAgent(guest), 12.5, 2 * GIB)
    assert memory.source is GuestSource.PROC
    assert memory.at == 12.5
    assert memory.free == 512000 * KIB
    assert memory.free_by_order is not None
    assert memory.free_by_order[10] == 103 * 4 * MIB
    assert (memory.reported, memory.unreported, memory.clamped) == (None, None, ())


@pytest.mark.parametrize("buddyinfo", [None, "nonsense"])
def test_the_orders_are_absent_where_buddyinfo_cannot_be_used(buddyinfo: str | None) -> None:
    files = {"/proc/meminfo": MEMINFO} | ({} if buddyinfo is None else {"/proc/buddyinfo": buddyinfo})
    memory = ProcSource().read(GuestAgent(FakeAgent(files)), 1.0, 2 * GIB)
    assert memory.free == 512000 * KIB
    assert memory.free_by_order is None


def test_meminfo_that_makes_no_sense_is_malformed() -> None:
    with pytest.raises(GuestAnswerMalformed):
        ProcSource().read(GuestAgent(FakeAgent({"/proc/meminfo": "hello"})), 1.0, GIB)


def test_a_guest_that_hangs_is_a_timeout() -> None:
    guest = FakeAgent({"/proc/meminfo": MEMINFO}, hang_at={"guest-file-read"})
    with pytest.raises(GuestTimeout):
        ProcSource().read(GuestAgent(guest), 1.0, GIB)


def test_a_guest_that_falls_silent_at_buddyinfo_is_a_timeout_not_a_guest_without_it() -> None:
    guest = FakeAgent({"/proc/meminfo": MEMINFO, "/proc/buddyinfo": BUDDYINFO})

    def transport(request: str, timeout: int) -> str:
        if "buddyinfo" in request:
            raise GuestTimeout("no answer")
        return guest(request, timeout)

    with pytest.raises(GuestTimeout):
        ProcSource().read(GuestAgent(transport), 1.0, GIB)


def test_numbers_beyond_what_was_assigned_are_clamped() -> None:
    guest = FakeAgent({"/proc/meminfo": MEMINFO, "/proc/buddyinfo": BUDDYINFO})
    memory = ProcSource().read(GuestAgent(guest), 1.0, 100 * MIB)
    assert memory.total == memory.free == memory.available == memory.cached == 100 * MIB
    assert set(memory.clamped) == {"total", "free", "available", "cached", "free_by_order"}


def test_the_source_is_supported_where_the_file_commands_are() -> None:
    assert ProcSource().probe(Capabilities("1", READ_COMMANDS)).ok
    verdict = ProcSource().probe(Capabilities("1", READ_COMMANDS - {"guest-file-read"}))
    assert verdict.answer is Answer.UNSUPPORTED
    assert "guest-file-read" in verdict.detail


@settings(max_examples=200)
@given(st.integers(0, 10**16 - 1), st.integers(0, 10**16 - 1), st.integers(0, 10**12 - 1), st.integers(0, 1 << 45))
def test_any_numbers_end_within_what_was_assigned(total: int, free: int, blocks: int, assigned: int) -> None:
    files = {
        "/proc/meminfo": f"MemTotal: {total} kB\nMemFree: {free} kB\nCached: {free} kB\n",
        "/proc/buddyinfo": f"Node 0, zone Normal {blocks} {blocks}\n",
    }
    memory = ProcSource().read(GuestAgent(FakeAgent(files)), 1.0, assigned)
    for value in (memory.total, memory.free, memory.cached, sum(memory.free_by_order or ())):
        assert value is not None
        assert 0 <= value <= assigned


@given(raw_answers, st.text(max_size=100), st.sampled_from(["guest-file-open", "guest-file-read", "guest-file-close"]))
def test_any_guest_gives_clamped_numbers_or_a_guest_error(raw: object, text: str, where: str) -> None:
    def mangle(command: str, answer: str) -> str:
        return raw if command == where else answer  # type: ignore[return-value]

    for guest in (
        FakeAgent({"/proc/meminfo": MEMINFO, "/proc/buddyinfo": BUDDYINFO}, mangle=mangle),
        FakeAgent({"/proc/meminfo": text, "/proc/buddyinfo": text}),
    ):
        try:
            memory = ProcSource().read(GuestAgent(guest), 1.0, GIB)
        except GuestError:
            continue
        assert memory.free is not None
        assert 0 <= memory.free <= GIB


def test_windows_is_not_asked_for_a_file_that_it_cannot_have() -> None:
    assert ProcSource().probe(Capabilities("8.2", READ_COMMANDS, os="debian")).answer is Answer.UNCHANGED
    verdict = ProcSource().probe(Capabilities("107.0", READ_COMMANDS, os="mswindows"))
    assert (verdict.answer, verdict.detail) == (Answer.UNSUPPORTED, "Windows has no /proc")
