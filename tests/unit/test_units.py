from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.units import GIB, KIB, MIB, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 64 * KIB),
        ("512MiB", 512 * MIB),
        ("512 M", 512 * MIB),
        ("1.5g", 1536 * MIB),
        ("2GB", 2 * GIB),
        ("1TiB", 1024 * GIB),
        ("7b", 7),
    ],
)
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1", "1e9", "1.G", "MiB", "1XiB", "0x10", "9" * 30, "1 G i B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write 512MiB"):
        parse_size(text)


@given(st.text())
def test_any_text_is_a_size_or_is_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_size(text) >= 0
