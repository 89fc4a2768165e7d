"""A virtual host whose emulator tore an instruction as it booted is booted once more, without what tears."""

from __future__ import annotations

import pytest

from lab.errors import BootError
from lab.virtual_host import VirtualHost


class Booted(VirtualHost):
    """Boots as it is told to, and keeps how it was tried."""

    def __init__(self, *ends: str, counted: bool = False) -> None:
        super().__init__([], counted=counted)
        self.ends, self.tried = list(ends), []

    @property
    def console(self) -> str:
        return self.ends[len(self.tried) - 1]

    def _boot(self, threads: str) -> None:
        self.tried.append(threads)
        if self.console:
            raise BootError(self.console)


def test_a_torn_instruction_is_no_defect_of_the_host() -> None:
    host = Booted("Oops: int3: 0000 [#1]", "")
    host.start()
    assert host.tried == ["multi", "single"]
    host.close()


@pytest.mark.parametrize(
    ("ends", "counted", "tried"),
    [
        (["Kernel panic - not syncing: out of memory", ""], False, ["multi"]),
        (["Oops: int3", "Oops: int3"], False, ["multi", "single"]),
        (["Oops: int3", ""], True, ["single"]),
    ],
)
def test_whatever_else_ends_a_boot_is_told(ends: list[str], counted: bool, tried: list[str]) -> None:
    host = Booted(*ends, counted=counted)
    with pytest.raises(BootError):
        host.start()
    assert host.tried == tried
    host.close()
