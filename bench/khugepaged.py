"""The host's khugepaged as a bench uses it: it may not fill what came back in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.harness.precondition import require
from memhint.conf import khugepaged
from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import ThpKnob, read_setting, write_setting

SHIPPED = next(int(one.default) for one in khugepaged.OPTS if one.name == "max_ptes_none")
"""What memhint sets where it may."""


@contextmanager
def sparing(most: int = SHIPPED, root: Path = Path("/")) -> Iterator[None]:
    """In the body khugepaged makes no huge page of which more than ``most`` of the 512 are absent.

    Raises PreconditionFailed where this kernel has no khugepaged.
    """
    kernel = KernelRoot(root)
    file = root / "sys/kernel/mm/transparent_hugepage" / ThpKnob.MAX_PTES_NONE.value
    require(file.exists(), "this kernel has no khugepaged: it takes CONFIG_TRANSPARENT_HUGEPAGE")
    before = read_setting(kernel, ThpKnob.MAX_PTES_NONE)
    write_setting(kernel, ThpKnob.MAX_PTES_NONE, str(most))
    try:
        yield
    finally:
        write_setting(kernel, ThpKnob.MAX_PTES_NONE, before)
