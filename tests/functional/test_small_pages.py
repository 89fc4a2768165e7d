"""memhint-small-pages becomes QEMU: its words, its process, and no huge pages. tests/lab has it under libvirt."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.small_pages import SOURCE, built

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler: apt-get install gcc libc6-dev")

ASKED = r"""#!/bin/sh
echo $$
grep THP_enabled /proc/$$/status
printf '%s\n' "$@"
"""


def as_qemu(folder: Path, text: str) -> Path:
    program = folder / "qemu"
    program.write_text(text)
    program.chmod(0o755)
    return program


def test_the_same_process_has_the_same_words_and_no_huge_pages(tmp_path: Path) -> None:
    program = built(tmp_path, as_qemu(tmp_path, ASKED))
    words = ["-name", "guest=a b,debug-threads=on", "", "-S"]
    with subprocess.Popen([program, *words], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        said = running.stdout.read().splitlines()
    assert said == [str(running.pid), "THP_enabled:\t0", *words]
    assert running.returncode == 0


def test_how_it_ends_is_how_qemu_ends(tmp_path: Path) -> None:
    assert subprocess.run([built(tmp_path, as_qemu(tmp_path, "#!/bin/sh\nexit 7\n"))], check=False).returncode == 7


@pytest.mark.parametrize(("exists", "why"), [(False, "No such file or directory"), (True, "Permission denied")])
def test_without_a_qemu_it_fails_and_says_what_it_wanted(tmp_path: Path, exists: bool, why: str) -> None:
    qemu = as_qemu(tmp_path, "")
    qemu.chmod(0o644) if exists else qemu.unlink()
    done = subprocess.run([built(tmp_path, qemu)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"memhint-small-pages: {qemu}: {why}\n"


def test_as_shipped_it_is_the_distributions_qemu(tmp_path: Path) -> None:
    program = built(tmp_path)
    qemu = Path(f"/usr/bin/qemu-system-{os.uname().machine}")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    if qemu.exists():
        assert done.stdout.startswith("QEMU emulator version ")
    elif not Path("/usr/libexec/qemu-kvm").exists():
        assert done.returncode == 1
        assert str(qemu) in done.stderr


def test_the_package_is_built_of_this_source() -> None:
    stage = (SOURCE.parent.parent / "tools" / "stage").read_text()
    assert 'usr/bin/memhint-small-pages" emulator/small_pages.c' in stage
