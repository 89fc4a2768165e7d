"""What KSM would merge, estimated from samples that were taken by content, and what that would cost.

A page is kept where its hash ends in zeros: one content in ``rate``, and the same contents in every VM. So each content
that is kept is kept with all its copies, and ``rate`` times what is seen is what is there, without a bias. (Pages
picked by their place would hide most copies: two places that hold the same page are both picked with the square of
the chance of one, and no rule makes up for that where the number of copies is not known.) The price is that every page
has to be read once, which is spread over time; what was not read yet counts as not mergeable.

For a content with m copies KSM keeps ceil(m / max_page_sharing) and gives m minus that back. With s for what is given
back of one content, the sum over all contents is estimated as rate × Σs over those kept, with a variance of
rate × (rate - 1) × Σs² (Horvitz-Thompson, each content kept independently with the chance 1/rate). Contents with very
many copies would make that variance large, so they are counted one by one, in every VM, with a weight of 1 and no
variance. A copy that was passed before its content became known as frequent is missed until the next pass.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memhint.objects.estimate import GroupEstimate, KsmCost, VmEstimate

RMAP_ITEM = 64  # bytes of the kernel's struct ksm_rmap_item, one for each page scanned
MAX_PAGE_SHARING = 256  # the kernel's default of that knob
SCAN_SECONDS_PER_PAGE = 2.5e-6  # CPU of ksmd for one page, merging included: see doc/measured-by-tests.md
ADVISOR_PAGES = (500, 30_000)  # the least and the most that the kernel's advisor scans between two sleeps
_SLEEP = 20  # ms, the kernel's default
_PAGES = 100  # between two sleeps, the kernel's default
_SURE = 1.96  # standard deviations around the mean that hold 95 of 100 cases
_UNSEEN = 3  # of which nothing is seen, there are in 95 of 100 cases fewer than 3 × rate


@dataclass(frozen=True, slots=True)
class PageSample:
    """What two looks at one VM's pages gave. Counts are pages."""

    at: float  # unix seconds: when looking began
    rate: int  # one content in so many was kept, a power of two: hash % rate == 0
    looked: int  # present at the first look, those of zeros with memory of their own included
    kept: Sequence[int]  # hashes of kept pages that held the same at the second look
    changed: int  # kept pages that did not
    frequent: Mapping[int, int] = field(default_factory=dict)  # copies of contents that were counted one by one
    frequent_tried: int = 0  # how many of those copies were looked at again
    frequent_held: int = 0  # how many of them held the same
    zeros: int = 0  # pages of zeros at the first look
    zeros_tried: int = 0  # how many of them were looked at again
    zeros_held: int = 0  # how many of those were zeros still
    zeros_merged: int = 0  # pages that KSM has replaced by the zero page before

    @property
    def still_zero(self) -> float:
        """The pages of zeros that KSM would find unchanged, and those it has found."""
        held = self.zeros_held / self.zeros_tried if self.zeros_tried else 0.0
        return self.zeros * held + self.zeros_merged


@dataclass(frozen=True, slots=True)
class KsmPace:
    """How KSM is to scan. None is the kernel's default."""

    advised: bool = True
    target_scan_time: int | None = 200  # seconds
    max_cpu: int | None = 70  # percent of a core
    pages_to_scan: int | None = None
    sleep_millisecs: int | None = None
    use_zero_pages: bool = True
    empty_only: bool = False  # it merges pages of zeros and no others


def rate_for(pages: int, keep_at_most: int) -> int:
    """The rate at which so many pages leave no more than ``keep_at_most`` to remember."""
    rate = 1
    while pages > rate * keep_at_most:
        rate *= 2
    return rate


def estimate(
    samples: Mapping[str, PageSample], project: str | None, page_size: int, pace: KsmPace
) -> tuple[GroupEstimate, tuple[VmEstimate, ...]]:
    """What merging the VMs of one group would save and cost, and each VM's part in it.

    Samples of different rates are brought to the coarsest of them.
    """
    rate = max((one.rate for one in samples.values()), default=1)
    frequent = frozenset[int]().union(*(sample.frequent for sample in samples.values()))
    own = {
        uuid: Counter[int]() if pace.empty_only else _copies(sample, rate, frequent) for uuid, sample in samples.items()
    }
    copies: Counter[int] = Counter()
    holders: Counter[int] = Counter()
    for counted in own.values():
        copies.update(counted)
        holders.update(counted.keys())
    parts = tuple(
        _part(uuid, samples[uuid], counted, holders, frequent, rate, page_size, pace.use_zero_pages)
        for uuid, counted in own.items()
    )
    # With one copy nothing is saved, and most contents have one.
    many = ((one, count - math.ceil(count / MAX_PAGE_SHARING)) for one, count in copies.items() if count > 1)
    saved, exact = [], 0
    for one, gain in many:
        if one in frequent:
            exact += gain
        else:
            saved.append(gain)
    zeros = sum(sample.still_zero for sample in samples.values())
    kept_zeros = 0 if pace.use_zero_pages else math.ceil(zeros / MAX_PAGE_SHARING)
    saving = rate * sum(saved) + exact + zeros - kept_zeros
    variance = float(rate * (rate - 1) * sum(one * one for one in saved))
    variance += sum(_zero_variance(sample) for sample in samples.values())
    unseen = _UNSEEN * rate if rate > 1 and samples and not pace.empty_only else 0
    error = max(_SURE * math.sqrt(variance), unseen)
    looked = sum(sample.looked + sample.zeros_merged for sample in samples.values())
    whole = GroupEstimate(
        project=project,
        members=tuple(samples),
        at=min((sample.at for sample in samples.values()), default=0.0),
        looked=looked * page_size,
        zero=sum(part.zero for part in parts),
        within=sum(part.within for part in parts),
        across=sum(part.across for part in parts),
        saving=round(saving) * page_size,
        error=math.ceil(error) * page_size,
        cost=ksm_cost(looked, pace),
    )
    return whole, parts


def ksm_cost(pages: int, pace: KsmPace) -> KsmCost:
    """What KSM takes to scan so many pages over and over.

    The advisor aims at ``target_scan_time`` for all of them and moves pages_to_scan between 500 and 30,000; the work of
    merging itself, and of the write fault that separates a merged page again, comes on top.
    """
    sleep = (_SLEEP if pace.sleep_millisecs is None else pace.sleep_millisecs) / 1000
    at_once = float(pace.pages_to_scan or _PAGES)
    if pace.advised:
        least, most = ADVISOR_PAGES
        target, share = pace.target_scan_time or 200, (pace.max_cpu or 70) / 100
        # pages between two sleeps, so that all are scanned in time, and so that the CPU suffices
        in_time = pages * sleep / max(1e-9, target - pages * SCAN_SECONDS_PER_PAGE)
        affordable = most if share >= 1 else share * sleep / (SCAN_SECONDS_PER_PAGE * (1 - share))
        at_once = min(float(most), max(float(least), min(in_time, affordable)))
    busy = at_once * SCAN_SECONDS_PER_PAGE
    return KsmCost(
        metadata=pages * RMAP_ITEM,
        cpu_percent=100 * busy / (busy + sleep),
        scan_seconds=pages / at_once * (busy + sleep),
    )


def _copies(sample: PageSample, rate: int, frequent: frozenset[int]) -> Counter[int]:
    """How many copies of each content stay in a VM: of the frequent ones all, of the others one content in ``rate``."""
    held = sample.frequent_held / sample.frequent_tried if sample.frequent_tried else 1.0
    counted = Counter({one: round(count * held) for one, count in sample.frequent.items()})
    # A copy of a frequent content that was kept was seen before it was known as one, or in a VM where it is none.
    counted.update(one for one in sample.kept if one % rate == 0 or one in frequent)
    return +counted


def _part(
    uuid: str,
    sample: PageSample,
    counted: Mapping[int, int],
    holders: Mapping[int, int],
    frequent: frozenset[int],
    rate: int,
    page_size: int,
    use_zero_pages: bool,
) -> VmEstimate:
    weight = {True: 1, False: rate}
    within = sum(weight[one in frequent] * (count - 1) for one, count in counted.items() if count > 1)
    across = sum(weight[one in frequent] * (1 - 1 / holders[one]) for one in counted if holders[one] > 1)
    zero = sample.still_zero if use_zero_pages else max(0.0, sample.still_zero * (1 - 1 / MAX_PAGE_SHARING))
    gone_frequent = sum(sample.frequent.values()) * (1 - sample.frequent_held / max(1, sample.frequent_tried))
    gone_zero = sample.zeros - (sample.still_zero - sample.zeros_merged)
    return VmEstimate(
        uuid=uuid,
        at=sample.at,
        looked=(sample.looked + sample.zeros_merged) * page_size,
        zero=round(zero) * page_size,
        within=within * page_size,
        across=round(across * page_size),
        changed=round(sample.rate * sample.changed + gone_frequent + gone_zero) * page_size,
    )


def _zero_variance(sample: PageSample) -> float:
    """Of the pages of zeros that stay, of which only some were looked at again (binomial)."""
    if not sample.zeros_tried or sample.zeros_tried >= sample.zeros:
        return 0.0
    held = sample.zeros_held / sample.zeros_tried
    return sample.zeros**2 * held * (1 - held) / sample.zeros_tried
