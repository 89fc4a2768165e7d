"""Which pages have a partner, in bounded memory: 4 bytes for each page, and 2 for the filters.

A print is 32 bits of a hash, of a page or of a part of it. Two filters remember prints: those seen, and those seen more
than once. In a filter a print is four bits of one word of 64, so that it is entered by one atomic step, and of two
threads that bring the same one exactly one is the first. With one byte for each page in each filter about 1 % of those
without a partner pass for such as have one, and those whose 32 bits happen to be another's: 6 % where a TiB is in use.
Who counts those that pass by their whole hashes tells them. That is exact but for hashes of 64 bits that happen to be
equal; their seed is secret, and what is merged is the kernel's own to compare, byte by byte.

The loops are compiled where the package was built with a compiler (``_pages.c``).
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memhint.kernel.native import PAGES, Buffer, NativePages

ABSENT, ZEROS = 0, 1  # prints of pages without content
_LEAST = 2  # of those with
_WORD = 8  # bytes
_MORE_WORDS = (1 << 32) - 1
_MIX = 0x9E3779B97F4A7C15  # 2⁶⁴ over the golden ratio


class Repeated(NamedTuple):
    """What ``PageIndex.repeated`` leaves."""

    prints: array[int]
    there: int  # that are not ABSENT
    zeros: int  # of them


class PageIndex:
    """The prints of a group of processes. Several threads may use it at once."""

    def __init__(self, pages: int, native: NativePages | None = PAGES) -> None:
        """:param pages: for which there is to be room; more make it less sharp, and never larger"""
        words = min(max(1, pages // _WORD), _MORE_WORDS)
        self._once = bytearray(words * _WORD)
        self._more = bytearray(words * _WORD)
        self._native = native
        self._lock = threading.Lock()  # Python's own steps are not atomic

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self._once) + len(self._more)

    def enter(self, prints: array[int]) -> tuple[int, int]:
        """Remember them; how many are of pages with content, and how many of those were there before."""
        if self._native is not None:
            return self._native.enter(prints, self._once, self._more)
        once, more, content, again = _words(self._once), _words(self._more), 0, 0
        with self._lock:
            for one in prints:
                if one < _LEAST:
                    continue
                content += 1
                at, bits = _bits(one, len(once))
                if once[at] & bits == bits:
                    more[at] |= bits
                    again += 1
                else:
                    once[at] |= bits
        return content, again

    def repeated(self, prints: Buffer) -> Repeated:
        """The same with ABSENT in place of those that were seen once. Pages of zeros stay."""
        found = array("I")
        if self._native is not None:
            left, count, zeros = self._native.repeated(prints, self._more)
            found.frombytes(left)
            return Repeated(found, count, zeros)
        more = _words(self._more)
        for one in memoryview(prints).cast("B").cast("I"):
            at, bits = _bits(one, len(more))
            found.append(one if one < _LEAST or more[at] & bits == bits else ABSENT)
        return Repeated(found, len(found) - found.count(ABSENT), found.count(ZEROS))


def print_of(content: int) -> int:
    """Of a hash of 64 bits."""
    return max(_LEAST, content & 0xFFFFFFFF)


def prints_of(
    addresses: array[int],
    hashes: array[int],
    zeros: array[int],
    start: int,
    page_size: int,
    pages: int,
    native: NativePages | None = PAGES,
) -> array[int]:
    """What a look at so many pages saw, by place.

    :raises ValueError: when an address is outside
    """
    if native is not None:
        return array("I", native.prints(addresses, hashes, zeros, start, page_size, pages))
    found = array("I", bytes(4 * pages))
    for place, content in zip(_places(addresses, start, page_size, pages), hashes, strict=True):
        found[place] = print_of(content)
    for place in _places(zeros, start, page_size, pages):
        found[place] = ZEROS
    return found


def held(
    addresses: array[int],
    hashes: array[int],
    start: int,
    page_size: int,
    prints: array[int],
    native: NativePages | None = PAGES,
) -> tuple[array[int], array[int]]:
    """Addresses and hashes of those pages that hold what their prints say.

    :param start: the address that the first print is of
    :raises ValueError: when a page has no print
    """
    places, contents = array("Q"), array("Q")
    if native is not None:
        for kept, text in zip(
            (places, contents), native.held(addresses, hashes, start, page_size, prints), strict=True
        ):
            kept.frombytes(text)
        return places, contents
    for place, address, content in zip(
        _places(addresses, start, page_size, len(prints)), addresses, hashes, strict=True
    ):
        if prints[place] == print_of(content):
            places.append(address)
            contents.append(content)
    return places, contents


def _places(addresses: Sequence[int], start: int, page_size: int, pages: int) -> Iterable[int]:
    places = [(address - start) // page_size for address in addresses]
    if places and not 0 <= min(places) <= max(places) < pages:
        raise ValueError("an address outside")
    return places


def _bits(one: int, words: int) -> tuple[int, int]:
    """The word of a print, and its four bits in it."""
    mixed = one * _MIX & 0xFFFFFFFFFFFFFFFF
    bits = 1 << (mixed & 63) | 1 << (mixed >> 6 & 63) | 1 << (mixed >> 12 & 63) | 1 << (mixed >> 18 & 63)
    return (mixed >> 32) * words >> 32, bits


def _words(filtered: bytearray) -> memoryview:
    return memoryview(filtered).cast("Q")
