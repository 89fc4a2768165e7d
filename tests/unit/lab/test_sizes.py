from __future__ import annotations

import pytest

from lab.errors import BadSize
from lab.sizes import GIB, MIB, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("512MiB", 512 * MIB),
        ("1GiB", GIB),
        (" 1.5 G ", 3 * GIB // 2),
        ("2k", 2048),
        ("1TiB", 1 << 40),
        ("7B", 7),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "1GB", "1 MiB extra", "0x10", "1e9", "1,5GiB"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadSize, match="MiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (GIB, "1 GiB"), (1536 * MIB, "1.5 GiB"), (300 * MIB, "300 MiB"), (-GIB, "-1 GiB")],
)
def test_sizes_are_written(size: int, text: str) -> None:
    assert format_size(size) == text
