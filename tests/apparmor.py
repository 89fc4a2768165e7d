"""AppArmor policy for tests: what the parser makes of profiles, with the abstractions that this machine has."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILE = ROOT / "etc" / "apparmor.d" / "memhint-agent"
SMALL_PAGES = ROOT / "etc" / "apparmor.d" / "memhint-small-pages"
INSTALLED = Path("/etc/apparmor.d")
FEATURES = INSTALLED / "abi" / "3.0"


def missing() -> str:
    """Why profiles cannot be parsed here; empty where they can."""
    if parser() is None:
        return "no apparmor_parser: apt-get install apparmor"
    if not (INSTALLED / "abstractions" / "libvirt-qemu").exists():
        return "no profile of VMs: apt-get install libvirt-daemon-system"
    return ""


def parser() -> str | None:
    """Where the parser is."""
    return shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin:/bin")


def compiled(text: str, folder: Path) -> bytes:
    """A profile as the kernel takes it, with the installed abstractions; an AssertionError says what is wrong."""
    profile = folder / "profile"
    profile.write_text(text)
    program = parser()
    assert program is not None
    words = [program, "-Q", "-K", "-S", "--base", str(INSTALLED), "-M", str(FEATURES), str(profile)]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
