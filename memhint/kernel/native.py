"""The compiled loops over pages, where the package was built with them: see ``_pages.c``."""

from __future__ import annotations

import importlib
import mmap
from array import array
from typing import Protocol, TypeAlias, cast

Buffer: TypeAlias = "bytes | bytearray | memoryview | mmap.mmap | array[int]"


class NativePages(Protocol):
    """What ``_pages.c`` gives. Arrays are bytes here: of 64 bits, those of prints of 32."""

    def look(
        self,
        pagemap: int,
        memory: int,
        pid: int,
        start: int,
        pages: int,
        page_size: int,
        seed: int,
        zero: int,
        buffer: Buffer,
        wanted: Buffer | None,
    ) -> tuple[bytes, bytes, bytes] | None:
        """Addresses and hashes of pages with content, and addresses of those of zeros; None: there is no memory.

        ``pid`` 0: read all through ``memory``.
        """

    def parts(
        self,
        pagemap: int,
        memory: int,
        pid: int,
        start: int,
        pages: int,
        page_size: int,
        seed: int,
        offset: int,
        length: int,
        buffer: Buffer,
    ) -> tuple[bytes, int] | None:
        """Prints of a part of each page, and the bytes that were read; None and ``pid`` 0 as above."""

    def enter(self, prints: Buffer, once: Buffer, more: Buffer) -> tuple[int, int]:
        """See ``PageIndex.enter``."""

    def repeated(self, prints: Buffer, more: Buffer) -> tuple[bytes, int, int]:
        """See ``PageIndex.repeated``."""

    def prints(self, addresses: Buffer, hashes: Buffer, zeros: Buffer, start: int, page_size: int, pages: int) -> bytes:
        """See ``page_index.prints_of``."""

    def held(
        self, addresses: Buffer, hashes: Buffer, start: int, page_size: int, prints: Buffer
    ) -> tuple[bytes, bytes]:
        """See ``page_index.held``."""


def _load() -> NativePages | None:
    try:
        return cast(NativePages, importlib.import_module("memhint.kernel._pages"))
    except ImportError:
        return None


PAGES = _load()
