"""Which pages held the same at two looks and have a partner, in bounded memory: about 3 bytes for each page.

Each page has a tag of 8 bits of its hash: what changed is seen by it, but for one change in 256. Two filters remember
contents: those seen, and those seen more than once. In a filter a content is four bits of one word of 64, so that it is
entered by one atomic step, and of two threads that bring the same content exactly one is the first. With one byte for
each page in each filter about 1 % of the contents without a partner pass for such as have one; who counts those that
pass by their whole hashes tells them. That is exact but for hashes of 64 bits that happen to be equal; their seed is
secret, and what is merged is the kernel's own to compare, byte by byte.

The loops are compiled where the package was built with a compiler (``_pages.c``).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from memhint.kernel.native import PAGES, NativePages

ABSENT, ZEROS = 0, 255  # tags of pages without content
_WORD = 8  # bytes
_MORE_WORDS = (1 << 32) - 1


@dataclass(slots=True)
class Again:
    """What a second look at some pages told."""

    changed: int = 0  # pages that had content, and have another
    addresses: array[int] = field(default_factory=lambda: array("Q"))  # of those that are the same, and not alone
    hashes: array[int] = field(default_factory=lambda: array("Q"))


class PageIndex:
    """The contents of a group of processes. Several threads may use it at once where it is compiled; see ``native``."""

    def __init__(self, pages: int, native: NativePages | None = PAGES) -> None:
        """:param pages: for which there is to be room; more make it less sharp, and never larger"""
        words = min(max(1, pages // _WORD), _MORE_WORDS)
        self._once = bytearray(words * _WORD)
        self._more = bytearray(words * _WORD)
        self._native = native

    @property
    def size(self) -> int:
        """Bytes, without the tags."""
        return len(self._once) + len(self._more)

    def first(self, addresses: array[int], hashes: array[int], start: int, page_size: int, tags: bytearray) -> None:
        """Remember what pages hold.

        :param start: the address that the first tag is of
        :raises ValueError: when a page has no tag
        """
        if self._native is not None:
            self._native.first(addresses, hashes, start, page_size, tags, self._once, self._more)
            return
        once, more = _words(self._once), _words(self._more)
        for place, content in zip(_places(addresses, start, page_size, tags), hashes, strict=True):
            tags[place] = _tag(content)
            at, bits = _bits(content, len(once))
            if once[at] & bits == bits:
                more[at] |= bits
            once[at] |= bits

    def second(self, addresses: array[int], hashes: array[int], start: int, page_size: int, tags: bytearray) -> Again:
        """Hold what pages have now against what they had.

        :raises ValueError: when a page has no tag
        """
        again = Again()
        if self._native is not None:
            again.changed, places, contents = self._native.second(addresses, hashes, start, page_size, tags, self._more)
            again.addresses.frombytes(places)
            again.hashes.frombytes(contents)
            return again
        more = _words(self._more)
        for place, address, content in zip(_places(addresses, start, page_size, tags), addresses, hashes, strict=True):
            at, bits = _bits(content, len(more))
            if tags[place] != _tag(content):
                again.changed += tags[place] not in (ABSENT, ZEROS)
            elif more[at] & bits == bits:
                again.addresses.append(address)
                again.hashes.append(content)
        return again


def _places(addresses: Sequence[int], start: int, page_size: int, tags: bytearray) -> list[int]:
    places = [(address - start) // page_size for address in addresses]
    if places and not 0 <= min(places) <= max(places) < len(tags):
        raise ValueError("an address without a tag")
    return places


def _tag(content: int) -> int:
    return min(max(ABSENT + 1, content >> 24 & 0xFF), ZEROS - 1)


def _bits(content: int, words: int) -> tuple[int, int]:
    """The word of a content, and its four bits in it."""
    bits = 1 << (content & 63) | 1 << (content >> 6 & 63) | 1 << (content >> 12 & 63) | 1 << (content >> 18 & 63)
    return (content >> 32) * words >> 32, bits


def _words(filtered: bytearray) -> memoryview:
    return memoryview(filtered).cast("Q")
