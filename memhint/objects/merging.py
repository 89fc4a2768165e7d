"""How the merged memory of one VM fares: how much there is, and how fast writes break it up again."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.ranges import Count, Seconds, Size


@dataclass(frozen=True, slots=True)
class Merging:
    """One VM that may merge.

    The kernel counts breaks of the whole host only. They are divided among the VMs that have merged pages, by their
    page faults: a VM's part is an estimate, and never more than it had faults.
    """

    merged: Size  # bytes that share a page of KSM or the zero page
    breaks: Count | None = None  # merged pages broken up in a minute; None: not known yet, or the kernel does not count
    life: Seconds | None = None  # that a page stays merged, on the average; None: unknown, or next to none is broken up
    rests: Seconds | None = None  # for which it is left alone still, as its pages break too fast
    zero: Size = 0  # of what is merged, the bytes that KSM replaced by the zero page
    partition: Count | None = None  # of KSM, that it is in; None: the kernel has none
