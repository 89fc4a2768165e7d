"""What a lever that takes memory in pieces does to a VM's huge pages, before it is pulled.

A piece smaller than a huge page splits the one that holds it. What is taken comes back with a page fault for each page
instead of one for 512, and the huge page only if it is made again: a collapse, which copies 512 pages.
"""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.counted import counted
from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap, GapReason
from memhint.objects.pieces import HUGE_ORDER, HUGE_PAGE, PAGE
from memhint.objects.units import mib


@dataclass(frozen=True, slots=True)
class Splits:
    """The most that it can do to one VM."""

    huge: int  # huge pages that are split; as many collapses make them again
    of: int  # huge pages that back the VM now
    taken: int  # bytes

    @property
    def faults(self) -> int:
        """Page faults until the VM has again what was taken."""
        return -(-self.taken // PAGE)

    @property
    def collapses(self) -> int:
        """Huge pages to make again, each by copying 512 pages, until it is backed as well as before."""
        return self.huge

    def pays(self, least: int) -> bool:
        """Whether each huge page that is split yields ``least`` bytes, on the average and at the worst."""
        return self.taken >= self.huge * least

    def __str__(self) -> str:
        if not self.huge:
            return "splits no huge page"
        return (
            f"splits up to {self.huge} of {counted(self.of, 'huge page')} for up to {mib(self.taken)} MiB: "
            f"{counted(self.faults, 'page fault')} and {counted(self.collapses, 'collapse')} to have it again"
        )


def splits_by_free(domain: DomainObservation, least_order: int = 0) -> Splits | Gap:
    """Taking what is free in the guest in blocks below a huge page, down to ``least_order``.

    What the guest says of its free blocks tells how many there are, never more than the host has seen huge pages.
    """
    of = _huge_pages(domain)
    if isinstance(of, Gap):
        return of
    guest = domain.guest
    if guest is None or guest.free is None:
        return Gap("splits", GapReason.UNSUPPORTED, "the guest does not say what is free")
    if guest.free_by_order is None:
        taken = _resident(domain, guest.free)
        return Splits(min(of, -(-taken // (PAGE << least_order))), of, taken)
    orders = list(enumerate(guest.free_by_order))[least_order:HUGE_ORDER]
    blocks = sum(-(-size // (PAGE << order)) for order, size in orders)
    return Splits(min(of, blocks), of, _resident(domain, sum(size for _, size in orders)))


def splits_by_size(domain: DomainObservation, taken: int, piece: int = PAGE) -> Splits | Gap:
    """Taking ``taken`` bytes in pieces of ``piece`` bytes that may lie anywhere: at the worst one in each huge page."""
    of = _huge_pages(domain)
    if isinstance(of, Gap):
        return of
    taken = _resident(domain, taken)
    return Splits(min(of, -(-taken // piece)), of, taken)


def splits_by_swap(domain: DomainObservation, taken: int) -> Splits | Gap:
    """Swapping out: the kernel takes a huge page whole where it can, and it comes back in small pages all the same."""
    return splits_by_size(domain, taken, HUGE_PAGE)


def splits_by_balloon(domain: DomainObservation, left: int) -> Splits | Gap:
    """Shrinking to ``left`` bytes: a balloon takes single pages."""
    now = domain.balloon_actual if domain.balloon_actual is not None else domain.facts.memory
    return splits_by_size(domain, max(0, now - left))


def splits_by_merging(domain: DomainObservation, estimated: DedupEstimate | None) -> Splits | Gap:
    """Merging what the estimate says of this VM; all of its memory where nothing was estimated."""
    parts = estimated.vms if estimated is not None else ()
    part = next((one for one in parts if one.uuid == domain.uuid), None)
    most = domain.process.rss if domain.process is not None else 0
    return splits_by_size(domain, most if part is None else part.saving)


def words(found: Splits | Gap) -> str:
    """For the detail of a verdict, or of an action."""
    if isinstance(found, Gap):
        return f"how many huge pages that splits is not known: {found.detail}"
    return str(found)


def _huge_pages(domain: DomainObservation) -> int | Gap:
    if domain.process is None:
        return Gap("splits", GapReason.GONE, f"the VM is {domain.state}")
    if domain.deep is None:
        return Gap("splits", GapReason.PENDING, "its huge pages were not counted yet")
    return domain.deep.anon_huge // HUGE_PAGE


def _resident(domain: DomainObservation, size: int) -> int:
    return min(size, domain.process.rss) if domain.process is not None else 0
