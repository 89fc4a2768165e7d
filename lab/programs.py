"""The programs the lab calls, and the packages they come from."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabError, MissingPackage, NotRoot

_SEARCH = "/usr/sbin:/sbin:/usr/bin:/bin"

_PACKAGE_OF = {
    "libvirtd": "libvirt-daemon-system",
    "virtlogd": "libvirt-daemon",
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "gcc": "gcc libc6-dev",
    "modprobe": "kmod",
    "depmod": "kmod",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mkswap": "util-linux",
    "mke2fs": "e2fsprogs",
    "qemu-img": "qemu-utils",
    "dpkg": "dpkg",
    "apt-get": "apt",
    "ldd": "libc-bin",
}


def find(program: str) -> str:
    """Absolute path of `program`; the error names the package that has it."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_SEARCH}")
    if path is None:
        package = _PACKAGE_OF.get(program, program)
        raise MissingPackage(f"{program} is not installed: apt-get install {package}")
    return path


def require_root() -> None:
    """Refuse early what would fail halfway."""
    if os.geteuid() != 0:
        raise NotRoot("the lab needs root for namespaces, cgroups and swap: run it with sudo")


def require_all() -> None:
    """All missing packages in one message, so that one apt-get is enough."""
    missing = []
    for program in ("libvirtd", "virtlogd", "qemu-system-x86_64", "nsenter", "unshare"):
        try:
            find(program)
        except MissingPackage:
            missing.append(_PACKAGE_OF[program])
    if missing:
        raise MissingPackage(f"not installed: {', '.join(missing)}: apt-get install {' '.join(missing)}")


def run(
    argv: Sequence[str], what: str, error: type[LabError], cwd: Path | None = None, env: dict[str, str] | None = None
) -> str:
    """Standard output of `argv`, untranslated; `error` with its standard error when it fails."""
    command = [find(argv[0]) if "/" not in argv[0] else argv[0], *argv[1:]]
    # C.UTF-8 would not do: there LANGUAGE still has programs translate.
    env = {**(os.environ if env is None else env), "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, check=False)
    except OSError as reason:
        raise error(f"{what}: {reason}") from reason
    if done.returncode:
        raise error(
            f"{what}: {' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()[-600:] or 'no message'}"
        )
    return done.stdout
