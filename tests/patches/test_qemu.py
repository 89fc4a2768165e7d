"""QEMU: style of each patch, what compiles with default features, and the qtests of its balloon."""

import pytest

from tests.patches.command import passes


@pytest.mark.parametrize("part", ["style", "objects", "qtest"])
def test_qemu(part: str) -> None:
    passes("qemu/check", part)
