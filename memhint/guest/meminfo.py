"""The extended guest agent's account of the guest's memory."""

from __future__ import annotations

from memhint.guest import fields
from memhint.guest.commands import GET_MEMINFO
from memhint.guest.proc import MemInfo
from memhint.guest.protocol import GuestAgent

_SIZE_MAX = 1 << 60


def read_meminfo(agent: GuestAgent) -> MemInfo:
    """The same numbers that a stock agent's /proc/meminfo gives, and the guest's pressure.

    :raises GuestAnswerMalformed: the answer makes no sense
    :raises GuestError: as the agent's calls do
    """
    answer = agent.call(GET_MEMINFO)

    def size(name: str) -> int | None:
        return fields.integer(answer, name, minimum=0, maximum=_SIZE_MAX) if fields.has(answer, name) else None

    pages, buffers, shared = size("cached"), size("buffers"), size("shmem")
    return MemInfo(
        total=fields.integer(answer, "total", minimum=0, maximum=_SIZE_MAX),
        free=fields.integer(answer, "free", minimum=0, maximum=_SIZE_MAX),
        available=size("available"),
        # Shared memory is counted among the page cache and cannot be dropped.
        cached=None if pages is None else max(0, pages + (buffers or 0) - (shared or 0)),
        cold=size("inactive-file"),
        pressure=_pressure(answer),
    )


def _pressure(answer: object) -> float | None:
    if not fields.has(answer, "pressure"):
        return None
    return fields.number(answer, "pressure.some-avg10", minimum=0, maximum=100)
