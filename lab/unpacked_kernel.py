"""A distribution's kernel, taken out of its bzImage: unpacking it takes an emulated processor a second of each boot.

QEMU enters such a kernel as PVH has it, so it lies where it was linked to: there is no KASLR.
"""

from __future__ import annotations

import os
from dataclasses import replace

import zstandard

from lab.image import Image

_HEADER = slice(0x202, 0x206)
_PAYLOAD_SINCE = 0x208  # version of the boot protocol
_ZSTD = b"\x28\xb5\x2f\xfd"
_ENTRY = b"\x12\0\0\0Xen\0"
"""Type and name of the note that says where PVH enters; QEMU takes no kernel without."""


def unpacked(image: Image) -> Image:
    """The image with its kernel unpacked, beside the packed one; as it is where that cannot be done, and where it is an
    installed system, which boots as it is."""
    if image.root is not None:
        return image
    kernel = image.kernel.with_name("vmlinux")
    if not kernel.exists():
        content = payload(image.kernel.read_bytes())
        if content is None:
            return image
        fresh = kernel.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(content)
        fresh.rename(kernel)
    return replace(image, kernel=kernel)


def payload(packed: bytes) -> bytes | None:
    """The kernel in a bzImage; None where it is packed in another way than zstd's, or has no entry for PVH.

    Of the others Debian's 6.1 is packed with lz4, which is unpacked quickly.
    """
    if packed[_HEADER] != b"HdrS" or _number(packed, 0x206, 2) < _PAYLOAD_SINCE:
        return None
    begin = (packed[0x1F1] + 1) * 512 + _number(packed, 0x248, 4)
    content = packed[begin : begin + _number(packed, 0x24C, 4)]
    if not content.startswith(_ZSTD):
        return None
    kernel = zstandard.ZstdDecompressor().decompressobj().decompress(content)  # its length comes after it
    return kernel if kernel.startswith(b"\x7fELF") and _ENTRY in kernel else None


def _number(content: bytes, at: int, size: int) -> int:
    return int.from_bytes(content[at : at + size], "little")
