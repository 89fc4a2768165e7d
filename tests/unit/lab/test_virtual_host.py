"""A virtual host whose emulator tore an instruction as it booted is booted once more, without what tears. What it runs
is compiled."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from lab import packages, virtual_host
from lab.errors import BootError
from lab.packages import Package
from lab.virtual_host import VirtualHost, compiled_file


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


def test_a_compiled_module_is_taken_without_a_look_at_its_source(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text("VALUE = 1\n")
    compiled = tmp_path / "elsewhere" / Path(cache_from_source("one.py"))
    compiled.parent.mkdir(parents=True)
    compiled.write_bytes(compiled_file(source))
    # Another text, of another time and length: as the archive has it, which keeps no times.
    (tmp_path / "elsewhere" / "one.py").write_text("raise RuntimeError\n")
    script = "import one; print(one.VALUE)"
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=False
    )
    assert told.stdout == "1\n", told.stderr


def test_apt_is_asked_again_only_when_it_may_know_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    stamp = ["a"]

    def found(name: str) -> Package:
        asked.append(name)
        return Package(name, "1")

    monkeypatch.setattr(packages, "apt_stamp", lambda: stamp[0])
    monkeypatch.setattr(virtual_host, "kernel_package", found)
    monkeypatch.setattr(packages, "candidate", found)
    monkeypatch.setattr(virtual_host, "dependencies", lambda name: ["python3.11-minimal"])
    known = tmp_path / "known.json"
    first = virtual_host._packages(known)
    assert [one.name for one in first][:2] == [virtual_host.KERNEL, "python3.11-minimal"]
    asked.clear()
    assert virtual_host._packages(known) == first
    assert asked == []
    for change in (lambda: stamp.append(stamp.pop() + "b"), lambda: known.write_text('{"stamp": "ab"}')):
        change()
        assert virtual_host._packages(known) == first
        assert asked
        asked.clear()
