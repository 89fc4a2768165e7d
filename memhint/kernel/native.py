"""The compiled loops over pages, where the package was built with them: see ``_pages.c``."""

from __future__ import annotations

import importlib
import mmap
from array import array
from typing import Protocol, TypeAlias, cast

Buffer: TypeAlias = "bytes | bytearray | memoryview | mmap.mmap | array[int]"


class NativePages(Protocol):
    """What ``_pages.c`` gives. Arrays of 64 bits are bytes here."""

    def look(
        self,
        pagemap: int,
        memory: int,
        start: int,
        pages: int,
        page_size: int,
        seed: int,
        zero: int,
        buffer: Buffer,
    ) -> tuple[bytes, bytes, bytes] | None:
        """Addresses and hashes of pages with content, and addresses of those of zeros; None: there is no memory."""

    def first(
        self, addresses: Buffer, hashes: Buffer, start: int, page_size: int, tags: Buffer, once: Buffer, more: Buffer
    ) -> None:
        """See ``PageIndex.first``."""

    def second(
        self, addresses: Buffer, hashes: Buffer, start: int, page_size: int, tags: Buffer, more: Buffer
    ) -> tuple[int, bytes, bytes]:
        """See ``PageIndex.second``."""


def _load() -> NativePages | None:
    try:
        return cast(NativePages, importlib.import_module("memhint.kernel._pages"))
    except ImportError:
        return None


PAGES = _load()
