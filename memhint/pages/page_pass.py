"""One pass over one VM's memory: every page is hashed once, and those kept are looked at a second time.

KSM merges what did not change between two of its scans. So a page counts only if it holds the same at a second look,
``settle`` seconds after the first. A large VM goes in parts, so that hours do not lie between the two.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Sequence
from enum import Enum

from memhint.kernel.guest_pages import CHUNK, GuestPages, PageHashes, Span
from memhint.objects.domain import ProcessMemory
from memhint.planner.dedup_estimate import PageSample

FREQUENT = 3  # copies of one content within a chunk that make it one to be counted one by one
FREQUENT_AT_MOST = 4096  # such contents
PART = 262_144  # pages that have their second look before others have their first: a GiB
_AGAIN = 256  # pages of one second look: they mostly lie apart, and each costs two system calls


class Phase(Enum):
    """How far a pass is."""

    FIRST = "first"
    SECOND = "second"  # not before the pages had time to change
    DONE = "done"


class _Again:
    """Pages that are to be looked at again: addresses in ascending order, and what they held."""

    def __init__(self) -> None:
        self.addresses = array("Q")
        self.hashes = array("Q")
        self._at = 0

    def add(self, pages: Sequence[tuple[int, int]]) -> None:
        """More of them: address and content."""
        self.addresses.extend(address for address, _ in pages)
        self.hashes.extend(digest for _, digest in pages)

    def left(self) -> bool:
        """Whether some have not had their second look."""
        return self._at < len(self.addresses)

    def held(self, pages: GuestPages) -> tuple[int, list[int]]:
        """Look at the next few: how many, and the contents of those that hold what they did; 0 stands for zeros.

        :raises ProcessGone: when the process ended
        """
        wanted = self.addresses[self._at : self._at + _AGAIN]
        before = dict(zip(wanted, self.hashes[self._at : self._at + _AGAIN], strict=True))
        self._at += len(wanted)
        look = pages.look_again(wanted)
        same = [one for at, one in zip(look.addresses, look.hashes, strict=True) if before[at] == one]
        return len(wanted), same + [0 for at in look.zeros if before[at] == 0]


class PagePass:
    """One pass; ``step`` does a small piece of it."""

    def __init__(
        self,
        process: ProcessMemory,
        pages: GuestPages,
        spans: Sequence[Span],
        rate: int,
        page_size: int,
        frequent: set[int] | None = None,
        began: float = 0.0,
    ) -> None:
        """:param rate: one content in so many is kept, a power of two
        :param began: unix seconds
        :param frequent: contents that are counted wherever they are; those that this pass finds are added
        """
        self.process = process
        self.began = began
        self.phase = Phase.FIRST
        self._pages = pages
        self._page = page_size
        self._rate = rate
        self._frequent = frequent if frequent is not None else set()
        self._left = deque(spans)
        self._part = 0  # pages of the present part that had their first look
        self._kept, self._often, self._zeros = _Again(), _Again(), _Again()
        self._held = array("Q")
        self._counts: Counter[int] = Counter()  # of the frequent contents
        self._looked = self._changed = 0
        self._often_seen = self._often_tried = self._often_held = 0
        self._zeros_seen = self._zeros_tried = self._zeros_held = 0

    def close(self) -> None:
        """Let go of the process."""
        self._pages.close()

    def step(self) -> Phase:
        """Read one chunk, and say which phase the next one is of.

        :raises ProcessGone: when the process ended
        """
        if self.phase is Phase.FIRST:
            self._first()
        elif self.phase is Phase.SECOND:
            self._second()
        return self.phase

    def sample(self, zeros_merged: int) -> PageSample:
        """What a pass that is done has found.

        :param zeros_merged: pages that KSM has replaced by the zero page
        """
        return PageSample(
            at=self.began,
            rate=self._rate,
            looked=self._looked,
            kept=self._held,
            frequent=dict(self._counts),
            frequent_tried=self._often_tried,
            frequent_held=self._often_held,
            changed=self._changed,
            zeros=self._zeros_seen,
            zeros_tried=self._zeros_tried,
            zeros_held=self._zeros_held,
            zeros_merged=zeros_merged,
        )

    def _first(self) -> None:
        if not self._left or self._part >= PART:
            self.phase = Phase.SECOND
            return
        span = self._left.popleft()
        end = min(span.end, span.start + CHUNK * self._page)
        if end < span.end:
            self._left.appendleft(Span(end, span.end))
        look = self._pages.look(span.start, (end - span.start) // self._page)
        self._part += len(look.hashes) + len(look.zeros)
        self._looked += len(look.hashes) + len(look.zeros)
        often = self._count_frequent(look)
        coarse = self._rate - 1
        pairs = list(zip(look.addresses, look.hashes, strict=True))
        if often:
            # Which of them are looked at again goes by their place: every rate-th.
            copies = [pair for pair in pairs if pair[1] in often]
            self._often.add(copies[-self._often_seen % self._rate :: self._rate])
            self._often_seen += len(copies)
            pairs = [pair for pair in pairs if pair[1] not in often]
        self._kept.add([pair for pair in pairs if not pair[1] & coarse])
        # And so with zeros, which are one content.
        some = look.zeros[-self._zeros_seen % self._rate :: self._rate]
        self._zeros.add([(address, 0) for address in some])
        self._zeros_seen += len(look.zeros)

    def _count_frequent(self, look: PageHashes) -> set[int]:
        """Count the contents of a chunk that are known for their many copies, or make themselves known by them.

        One content with thousands of copies would be kept with all of them or with none, which no small sample bears.
        """
        counts = Counter(look.hashes)
        if len(look.hashes) - len(counts) >= FREQUENT - 1 and len(self._frequent) < FREQUENT_AT_MOST:
            self._frequent.update(digest for digest, count in counts.items() if count >= FREQUENT)
        often = self._frequent.intersection(counts)
        for digest in often:
            self._counts[digest] += counts[digest]
        return often

    def _second(self) -> None:
        if self._kept.left():
            tried, held = self._kept.held(self._pages)
            self._changed += tried - len(held)
            self._held.extend(held)
        elif self._often.left():
            tried, held = self._often.held(self._pages)
            self._often_tried += tried
            self._often_held += len(held)
        elif self._zeros.left():
            tried, held = self._zeros.held(self._pages)
            self._zeros_tried += tried
            self._zeros_held += len(held)
        elif self._left:
            self._kept, self._often, self._zeros = _Again(), _Again(), _Again()
            self._part = 0
            self.phase = Phase.FIRST
        else:
            self.phase = Phase.DONE
