"""QEMU: style of each patch, what compiles with default features, and the qtests of its balloon."""

import pytest

from tests.patches.passed import passes_once


@pytest.mark.parametrize("part", ["style", "objects", "qtest"])
def test_qemu(part: str) -> None:
    passes_once("qemu/check", part, reads=("qemu", "guest_agent"))
