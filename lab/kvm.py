"""Whether KVM really boots a guest here.

A /dev/kvm that opens proves nothing: some hang or fail within the first instructions.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from lab.errors import KvmError
from lab.image import Image
from lab.paths import cache_dir
from lab.programs import find

ACCELERATORS = ("auto", "kvm", "tcg")
DEADLINE = 20.0
"""Seconds a guest gets to boot; with working KVM it takes one or two."""


def choose(wanted: str, image: Image) -> str:
    """ "kvm" or "tcg" for `wanted`, one of ACCELERATORS."""
    if wanted not in ACCELERATORS:
        raise KvmError(f"accelerator {wanted!r} is not one of {', '.join(ACCELERATORS)}")
    if wanted == "tcg":
        return "tcg"
    works, reason = verdict(image)
    if wanted == "kvm" and not works:
        raise KvmError(f"KVM does not boot a guest on this machine ({reason}): use --accel tcg")
    return "kvm" if works else "tcg"


def verdict(image: Image) -> tuple[bool, str]:
    """(KVM works, why), tried once per boot of this machine and kernel."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False, "no usable /dev/kvm"
    found = known()
    if found is None:
        found = _boot(image)
        file = _file()
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps({"key": _key(), "works": found[0], "reason": found[1]}))
        fresh.rename(file)
    return found


def known() -> tuple[bool, str] | None:
    """The verdict of this boot of the machine, None where nobody has tried."""
    try:
        told = json.loads(_file().read_text())
        return (bool(told["works"]), str(told["reason"])) if told["key"] == _key() else None
    except (OSError, ValueError, KeyError):
        return None


def _file() -> Path:
    return cache_dir() / "lab" / "kvm.json"


def _key() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.uname().release}"


def _boot(image: Image) -> tuple[bool, str]:
    argv = [
        find("qemu-system-x86_64"), "-accel", "kvm", "-cpu", "host", "-m", "256", "-nodefaults",
        "-display", "none", "-no-reboot",
        "-serial", "stdio", "-kernel", str(image.kernel), "-initrd", str(image.initrd),
        "-append", "console=ttyS0 quiet panic=-1 memhint.probe",
    ]  # fmt: skip
    started = time.monotonic()
    qemu = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, error = qemu.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        qemu.kill()
        qemu.communicate()
        return False, f"a guest did not boot within {DEADLINE:g} s"
    if b"memhint-probe-booted" in out:
        return True, f"a guest booted in {time.monotonic() - started:.1f} s"
    return False, f"QEMU ended with {qemu.returncode}: {error.decode(errors='replace').strip()[-200:]}"
