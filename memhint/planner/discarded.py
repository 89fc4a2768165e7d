"""A guest's count of reported memory against QEMU's count of discarded memory. Pure: readings in, judgement out.

The guest counts a batch after the host has answered it, so at any one moment it can claim no more than the host counts.
The two are never read at one moment. So a pair begins with a reading of the host that is older than the guest's, and a
claim is judged by a reading of the host that is newer: an honest guest then claims no more, however fast it reports,
but for one batch that was under way when the pair began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from memhint.objects.discarded import Agreement, BalloonReporting, ReportingCheck
from memhint.objects.guest import GuestMemory
from memhint.objects.units import MIB

TOLERANCE = 128 * MIB
"""Bytes of the one batch: Linux reports 32 blocks at a time (PAGE_REPORTING_CAPACITY), of at most 4 MiB each."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a guest said it has reported since its boot, in bytes, and when (unix seconds)."""

    at: float
    reported: int


@dataclass(frozen=True, slots=True)
class Pair:
    """One QEMU process with one boot of its guest: where both counts stood at first, and what is to be judged next."""

    check: ReportingCheck
    host: BalloonReporting  # the first reading
    last: BalloonReporting  # the newest
    rss: int | None  # bytes of the process at the first reading
    guest: Claim | None = None  # the first claim after it
    newest: Claim | None = None
    waiting: Claim | None = None  # the claim that the next reading that is late enough judges


@dataclass(frozen=True, slots=True)
class ReportingEvidence:
    """What is known of one VM now. ``claim`` is None where the guest does not count, or did not say yet."""

    instance: str
    boot_id: str | None
    host: BalloonReporting
    claim: Claim | None
    rss: int | None


def follow(pair: Pair | None, now: ReportingEvidence, slack: float) -> Pair:
    """The pair with what is known now.

    :param slack: seconds within which a reading was really taken after its ``at``
    """
    if pair is None or _another(pair, now):
        # What the guest was found to be does not end with a boot that only the guest speaks of.
        found = pair is not None and pair.check.instance == now.instance and pair.check.overclaims
        stigma = Agreement.OVERCLAIMS if found else Agreement.PENDING
        check = ReportingCheck(now.instance, now.boot_id, now.host.at, None, 0, 0, None, stigma)
        pair = Pair(check, now.host, now.host, now.rss)
    pair = replace(pair, last=now.host)
    if now.claim is not None and pair.guest is None and now.claim.at >= pair.host.at + slack:
        pair = replace(pair, guest=now.claim, newest=now.claim)
    if pair.guest is not None:
        pair = replace(pair, newest=now.claim or pair.newest, waiting=pair.waiting or now.claim)
    if pair.waiting is not None and now.host.at >= pair.waiting.at + slack:
        pair = replace(pair, check=_judged(pair, pair.waiting), waiting=None)
    if now.rss is not None and pair.rss is not None:
        pair = replace(pair, check=replace(pair.check, observed=pair.rss - now.rss))
    return pair


def believable(memory: GuestMemory, pair: Pair) -> GuestMemory:
    """The guest's word, clamped to what the host confirms where it was found to claim more.

    The lifetime total becomes the first claim and what the host discarded since; the parts of the free memory that
    rest on the guest's word alone become unknown.
    """
    if not pair.check.overclaims:
        return memory
    base = pair.guest.reported if pair.guest is not None else 0
    confirmed = base + pair.last.reported.bytes - pair.host.reported.bytes
    lifetime = None if memory.lifetime_reported is None else min(memory.lifetime_reported, confirmed)
    names = ("lifetime_reported", "reported", "unreported")
    changed = (*memory.clamped, *(name for name in names if name not in memory.clamped))
    return replace(memory, lifetime_reported=lifetime, reported=None, unreported=None, clamped=changed)


def prune(pairs: Mapping[str, Pair], present: Mapping[str, str]) -> dict[str, Pair]:
    """The pairs of VMs that still run in the same QEMU process; ``present`` is process instance by domain UUID."""
    return {uuid: pair for uuid, pair in pairs.items() if present.get(uuid) == pair.check.instance}


def _judged(pair: Pair, claim: Claim) -> ReportingCheck:
    assert pair.guest is not None
    skipped = pair.last.skipped - pair.host.skipped
    claimed = claim.reported - pair.guest.reported - skipped
    discarded = pair.last.discarded.bytes - pair.host.discarded.bytes
    agreement = Agreement.OVERCLAIMS if claimed > discarded + TOLERANCE else Agreement.AGREES
    return replace(pair.check, at=pair.last.at, claimed=claimed, discarded=discarded, agreement=agreement)


def _another(pair: Pair, now: ReportingEvidence) -> bool:
    """Whether one of the two counts began again: another process or boot, a new device, or a count that went back."""
    if pair.check.instance != now.instance:
        return True
    if now.boot_id is not None and pair.check.boot_id != now.boot_id:  # one that is not known now may be the same
        return True
    if now.host.reported.bytes < pair.last.reported.bytes or now.host.discarded.bytes < pair.last.discarded.bytes:
        return True
    return now.claim is not None and pair.newest is not None and now.claim.reported < pair.newest.reported
