"""A kernel is taken out of its bzImage where QEMU can enter it, and left in it elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from lab.image import Image
from lab.unpacked_kernel import payload, unpacked

SETUP = 3  # sectors of 512 bytes, after the first
OFFSET = 40  # of the payload, behind those
KERNEL = b"\x7fELF" + bytes(1000) + b"\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0" + bytes(range(256))


def bzimage(packed: bytes, protocol: int = 0x20F) -> bytes:
    """As Documentation/arch/x86/boot.rst has it. Behind what is packed comes its length, and the rest of the file."""
    found = bytearray((SETUP + 1) * 512 + OFFSET) + packed + bytes(8)
    found[0x1F1] = SETUP
    found[0x202:0x206] = b"HdrS"
    found[0x206:0x208] = protocol.to_bytes(2, "little")
    found[0x248:0x24C] = OFFSET.to_bytes(4, "little")
    found[0x24C:0x250] = (len(packed) + 4).to_bytes(4, "little")
    return bytes(found)


def packed(kernel: bytes) -> bytes:
    # as Linux packs it: without a word of how long it is unpacked
    return zstandard.ZstdCompressor(write_content_size=False).compress(kernel)


def test_what_was_packed_comes_out() -> None:
    assert payload(bzimage(packed(KERNEL))) == KERNEL


@pytest.mark.parametrize(
    "image",
    [
        b"",
        b"\x7fELF",
        bzimage(packed(KERNEL), protocol=0x207),
        bzimage(b"\x02\x21\x4c\x18" + KERNEL),
        bzimage(packed(KERNEL.replace(b"Xen", b"GNU"))),
        bzimage(packed(b"no ELF" + KERNEL)),
    ],
    ids=["nothing", "no bzImage", "too old", "lz4", "no entry", "no kernel"],
)
def test_anything_else_stays_as_it_is(image: bytes, tmp_path: Path) -> None:
    assert payload(image) is None
    file = tmp_path / "vmlinuz"
    file.write_bytes(image)
    before = Image(file, tmp_path / "initrd", "6.12", tmp_path / "disk")
    assert unpacked(before) == before
    assert [one.name for one in tmp_path.iterdir()] == ["vmlinuz"]


def test_it_is_unpacked_once(tmp_path: Path) -> None:
    file = tmp_path / "vmlinuz"
    file.write_bytes(bzimage(packed(KERNEL)))
    image = Image(file, tmp_path / "initrd", "6.12", tmp_path / "disk")
    found = unpacked(image)
    assert found.kernel.read_bytes() == KERNEL
    assert (found.initrd, found.release) == (image.initrd, image.release)
    file.write_bytes(b"")
    assert unpacked(image) == found


def test_an_installed_system_boots_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "vmlinuz"
    file.write_bytes(bzimage(packed(KERNEL)))
    image = Image(file, tmp_path / "initrd", "6.12", tmp_path / "disk", root=tmp_path / "root")
    assert unpacked(image) == image
