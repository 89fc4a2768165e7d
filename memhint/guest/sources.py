"""The sources that ask the agent, best first, and the choice between several observations of one guest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memhint.guest.capabilities import Capabilities
from memhint.guest.errors import GuestCommandBlocked, GuestCommandMissing, GuestError, GuestSilent
from memhint.guest.protocol import GuestAgent
from memhint.guest.source import GuestSourceReader
from memhint.guest.source_extended import ExtendedSource
from memhint.guest.source_proc import ProcSource
from memhint.objects.gap import Gap, GapReason
from memhint.objects.guest import GuestMemory, GuestSource
from memhint.objects.verdict import Reason

# Best first. A new source is one more line here.
READERS: tuple[GuestSourceReader, ...] = (ExtendedSource(), ProcSource())

_RANK = {source: rank for rank, source in enumerate(GuestSource)}


def read_memory(
    agent: GuestAgent,
    capabilities: Capabilities,
    at: float,
    assigned: int,
    readers: Sequence[GuestSourceReader] = READERS,
) -> GuestMemory:
    """The guest's memory from the best source that works. ``at`` in unix seconds, ``assigned`` in bytes.

    :raises GuestSilent: no answer came; no further source is tried
    :raises GuestError: what the best supported source said, or GuestCommandMissing where none is supported
    """
    first: GuestError | None = None
    lacking: list[str] = []
    for reader in readers:
        verdict = reader.probe(capabilities)
        if not verdict.ok:
            lacking.append(f"{reader.name}: {verdict.detail}")
            continue
        try:
            return reader.read(agent, at, assigned)
        except GuestSilent:
            raise
        except GuestError as error:
            first = first or error
    raise first or GuestCommandMissing("; ".join(lacking) or "there is no source to ask")


def withheld(capabilities: Capabilities, read: GuestMemory) -> Gap | None:
    """The gap of a better source than the one that was read, which only the guest's administrator blocks."""
    for reader in READERS:
        verdict = reader.probe(capabilities)
        if verdict.reason is Reason.GUEST_BLOCKED and _RANK[reader.name] < _RANK[read.source]:
            return GuestCommandBlocked(f"{reader.name}: {verdict.detail}").gap("guest memory")
    return None


def best(readings: Iterable[GuestMemory], now: float, max_age_s: float) -> GuestMemory | Gap:
    """The observation of the best source, the newest of it; none older than ``max_age_s`` seconds counts.

    Nor one from so far ahead: of a clock that was set back since, nobody knows how old it is.
    """
    known = tuple(readings)
    if not known:
        return Gap("guest", GapReason.PENDING, "no source has answered yet")
    fresh = [memory for memory in known if abs(now - memory.at) <= max_age_s]
    if not fresh:
        age = now - max(memory.at for memory in known)
        if age < 0:
            return Gap("guest", GapReason.TIMEOUT, "the clock was set back since the newest observation")
        return Gap("guest", GapReason.TIMEOUT, f"the newest observation is {age:.0f} s old")
    return min(fresh, key=lambda memory: (_RANK[memory.source], -memory.at))
