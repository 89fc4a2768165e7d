"""What a guest says of its memory. A forecast, never the truth: clamped to [0, assigned] by the parser."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.ranges import Count, Moment, Size
from memhint.objects.words import Word


class GuestSource(Word):
    """Where the numbers come from, best first."""

    KERNEL = "kernel"  # patched guest kernel and extended guest agent
    KPAGEFLAGS = "kpageflags"  # extended guest agent on a stock kernel
    PROC = "proc"  # stock guest agent reading /proc
    BALLOON = "balloon"  # virtio-balloon statistics
    HOST = "host"  # nothing in the guest


@dataclass(frozen=True, slots=True)
class GuestMemory:
    """One observation of one guest. Bytes; None is "not known", never 0.

    ``at`` is when the guest said it (unix seconds), so that an age can be shown.
    """

    source: GuestSource
    at: Moment
    total: Size | None = None  # what the guest kernel manages, below assigned
    free: Size | None = None
    available: Size | None = None
    cached: Size | None = None  # page cache
    reported: Size | None = None  # free and known to the host
    unreported: Size | None = None  # free, large enough to be reported, and not reported
    free_by_order: tuple[Size, ...] | None = None  # bytes free in blocks of order 0, 1, 2, …
    lifetime_reported: Count | None = None
    clamped: tuple[str, ...] = ()  # names of fields that lay outside [0, assigned]


@dataclass(frozen=True, slots=True)
class GuestKernel:
    """The guest's kernel and its page-reporting switch, as last read."""

    at: Moment
    release: str | None = None  # "6.12.117+deb12-cloud-amd64"
    boot_id: str | None = None
    order: int | None = None  # page_reporting_order as the file has it
    balloon_device: str | None = None  # "virtio3"; None when the guest shows no balloon
    balloon_bound: bool | None = None  # a driver serves it
    reporting_offered: bool | None = None  # VIRTIO_BALLOON_F_REPORTING was negotiated
    settable: tuple[str, ...] = ()  # settings that an extended agent can change on this kernel
    enabled: bool | None = None  # the patched kernel's switch; None where it has none
    delay_ms: int | None = None  # between two passes of reporting
    os: str | None = None  # the system's short name as guest-get-osinfo has it: "debian", "mswindows"
