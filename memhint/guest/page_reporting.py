"""The extended guest agent's view of page reporting: what was reported, and the settings that can be changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from memhint.guest import fields
from memhint.guest.commands import GET_PAGE_REPORTING, SET_PAGE_REPORTING
from memhint.guest.errors import GuestAnswerMalformed, GuestCommandFailed
from memhint.guest.protocol import GuestAgent

_SIZE_MAX = 1 << 60
_CALLS_MAX = 4096  # of one walk over a guest's memory; each looks at a bounded part
_SETTINGS_MAX = 16
_TEXT_MAX = 64
_MS_MAX = 1 << 32
_SCAN_MS = 500  # that one call may spend on page flags; the agent allows 1500


class ReportingParameter(StrEnum):
    """What a guest's kernel may let be changed at run time."""

    ENABLED = "enabled"
    ORDER = "order"
    DELAY_MS = "delay-ms"
    FLUSH = "flush"


@dataclass(frozen=True, slots=True)
class PageReporting:
    """One answer, or the sum of one walk. Bytes; None is not told. ``source``: "kernel", "kpageflags" or "none"."""

    source: str
    settable: frozenset[str]
    negotiated: bool | None
    enabled: bool | None
    order: int | None
    max_order: int
    delay_ms: int | None
    free: int
    reportable: int
    reported: int | None
    unreported: int | None
    total_reported: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """What a change did, and the settings as they are now. ``flushed`` in bytes."""

    enabled: bool | None
    order: int | None
    delay_ms: int | None
    flushed: int
    more: bool


def read_page_reporting(agent: GuestAgent) -> PageReporting:
    """Ask once, or as often as it takes an agent that walks page flags to come to the end of the guest's memory.

    :raises GuestAnswerMalformed: the answer makes no sense, or a walk gets nowhere
    :raises GuestError: as the agent's calls do
    """
    allowed = {"max_scan_ms": _SCAN_MS}
    try:
        answer = agent.call(GET_PAGE_REPORTING, **allowed)
    except GuestCommandFailed as error:
        if not _scans_unasked(error):
            raise
        allowed = {}
        answer = agent.call(GET_PAGE_REPORTING)
    first = _parse(answer)
    if first.source != "kpageflags":
        return first
    reported, cursor = first.reported or 0, -1
    for _ in range(_CALLS_MAX):
        if not fields.boolean(answer, "more"):
            unreported = max(0, first.reportable - reported)
            return replace(first, reported=min(reported, first.free), unreported=unreported)
        following = fields.integer(answer, "scan.next-pfn", minimum=0, maximum=_SIZE_MAX)
        if following <= cursor:
            raise GuestAnswerMalformed("the walk does not advance", "scan.next-pfn")
        cursor = following
        answer = agent.call(GET_PAGE_REPORTING, cursor=cursor, **allowed)
        reported += _parse(answer).reported or 0
    raise GuestAnswerMalformed("the walk does not end", "more")


def read_settings(agent: GuestAgent) -> PageReporting:
    """Ask once and cheaply, for the settings: where the kernel does not count, what was reported is not known.

    :raises GuestError: as the agent's calls do
    """
    try:
        return _parse(agent.call(GET_PAGE_REPORTING, max_scan_ms=0))
    except GuestCommandFailed as error:
        if not _scans_unasked(error):
            raise
    return _parse(agent.call(GET_PAGE_REPORTING, time_limit_ms=1))


def _scans_unasked(error: GuestCommandFailed) -> bool:
    """Whether the agent is of a series before ``max-scan-ms``: it walks page flags unless the kernel counts."""
    return "'max-scan-ms' is unexpected" in error.detail


def set_page_reporting(agent: GuestAgent, **settings: bool | int) -> Change:
    """Change settings, all or none; ``delay_ms`` and ``flush`` in milliseconds and bytes.

    :raises GuestCommandFailed: out of range, unsupported, or not permitted; nothing was changed
    :raises GuestError: as the agent's calls do
    """
    answer = agent.call(SET_PAGE_REPORTING, **settings)
    return Change(
        enabled=_optional_flag(answer, "enabled"),
        order=_optional_number(answer, "order", 64),
        delay_ms=_optional_number(answer, "delay-ms", _MS_MAX),
        flushed=fields.integer(answer, "flushed", minimum=0, maximum=_SIZE_MAX),
        more=fields.boolean(answer, "more"),
    )


def _parse(answer: object) -> PageReporting:
    names = fields.list_of(answer, "settable", _name, max_items=_SETTINGS_MAX)
    return PageReporting(
        source=fields.text(answer, "source", max_len=_TEXT_MAX),
        settable=frozenset(names),
        negotiated=_optional_flag(answer, "negotiated"),
        enabled=_optional_flag(answer, "enabled"),
        order=_optional_number(answer, "order", 64),
        max_order=fields.integer(answer, "max-order", minimum=0, maximum=64),
        delay_ms=_optional_number(answer, "delay-ms", _MS_MAX),
        free=fields.integer(answer, "free", minimum=0, maximum=_SIZE_MAX),
        reportable=fields.integer(answer, "reportable", minimum=0, maximum=_SIZE_MAX),
        reported=_optional_number(answer, "reported", _SIZE_MAX),
        unreported=_optional_number(answer, "unreported", _SIZE_MAX),
        total_reported=_optional_number(answer, "total-reported", (1 << 63) - 1),
    )


def _name(item: object) -> str:
    return fields.text(item, max_len=_TEXT_MAX)


def _optional_flag(answer: object, path: str) -> bool | None:
    return fields.boolean(answer, path) if fields.has(answer, path) else None


def _optional_number(answer: object, path: str, maximum: int) -> int | None:
    return fields.integer(answer, path, minimum=0, maximum=maximum) if fields.has(answer, path) else None
