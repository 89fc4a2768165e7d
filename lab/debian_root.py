"""Debian releases as root directories, made by mmdebstrap and kept in the cache.

The key is what is in it: the version of every package that apt would install now, and how they are installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.errors import ImageError
from lab.packages import asked
from lab.paths import cache_dir
from lab.programs import find, run
from qemu.qemubuild import Apt, BuildError

RELEASES = {"bookworm": "6.1", "trixie": "6.12"}
"""Releases that roots are made of, and the series of each one's own kernel."""
HOST_PACKAGES = (
    "systemd", "systemd-sysv", "systemd-container", "dbus", "libvirt-daemon-system", "libvirt-clients",
    "qemu-system-x86", "apparmor", "python3", "sqlite3", "logrotate", "procps", "kmod",
)  # fmt: skip
"""What a host with systemd, libvirt and QEMU has, before memhint comes to it."""
_MMDEBSTRAP = (
    "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=directory",
    '--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Retries "10"',
    *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("man", "locale", "doc")),
)  # fmt: skip

# Runs a command with pairs of paths mounted over each other, in a namespace that goes with it.
_WITH_MOUNTS = 'while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"'

Tell = Callable[[str], None]


class ReleaseApt(Apt):  # type: ignore[misc]  # qemubuild has no types
    """What apt would say on a machine of another release, at this machine's mirrors."""

    def sources(self) -> list[str]:
        """Lines for a sources.list, of packages in place of sources."""
        return [line.replace("deb-src", "deb", 1) for line in super().sources()]

    def would_install(self, packages: Sequence[str]) -> list[str]:
        """`NAME VERSION` of all that an empty root would get for `packages`, in order of names."""
        words = ["apt-get", "install", "--simulate", "--no-install-recommends", "?essential", "apt", *packages]
        done = subprocess.run(words, capture_output=True, text=True, env=self.env, check=False)
        if done.returncode:
            raise ImageError(f"{self.release} cannot be resolved: {done.stderr.strip()[-600:]}")
        return sorted(" ".join(one) for one in re.findall(r"^Inst (\S+) \((\S+) ", done.stdout, re.MULTILINE))


def debian_root(release: str, packages: Sequence[str] = HOST_PACKAGES, tell: Tell = lambda _: None) -> Path:
    """The root directory of a release with `packages`, made unless the cache has it. Nobody writes to it.

    :raises ImageError: when the release is not known, or apt or mmdebstrap fail
    """
    if release not in RELEASES:
        raise ImageError(f"release {release!r} is not one of {', '.join(RELEASES)}")
    base = cache_dir() / "lab" / "debian"
    base.mkdir(parents=True, exist_ok=True)
    with _locked(release):
        apt = ReleaseApt(base / f"apt-{release}", release)
        versions = _newest(apt, packages, tell)
        digest = hashlib.sha256("\0".join((*_MMDEBSTRAP, *versions)).encode())
        final = base / f"{release}-{digest.hexdigest()[:16]}"
        if not final.exists():
            tell(f"installing {len(versions)} packages of {release} into a directory")
            _install(final, apt, packages)
            (final / "packages.txt").write_text("".join(f"{line}\n" for line in versions))
    return final / "root"


def _newest(apt: ReleaseApt, packages: Sequence[str], tell: Tell) -> list[str]:
    """What apt would install."""

    def ask() -> dict[str, Any]:
        tell(f"asking for the packages of {apt.release}")
        try:
            apt.update()
        except (BuildError, subprocess.CalledProcessError) as reason:
            raise ImageError(f"the package lists of {apt.release} cannot be had: {reason}") from reason
        return {"versions": apt.would_install(packages)}

    key = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
    return asked(apt.dir / f"versions-{key}.json", ask, lambda found: [str(line) for line in found["versions"]])


def _install(final: Path, apt: ReleaseApt, packages: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(dir=final.parent) as scratch_name:
        scratch = Path(scratch_name)
        folder = scratch / "ready"
        folder.mkdir()
        # What it mounts, it leaves behind when it is killed: in a namespace that goes with it.
        words = [
            "unshare",
            "--mount",
            "--",
            *_MMDEBSTRAP,
            f"--include={','.join(packages)}",
            apt.release,
            str(folder / "root"),
        ]
        # It calls programs of the system's administrator by name.
        env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", "TMPDIR": str(scratch)}
        run([*words, str(apt.dir / "sources.list")], f"making a root of {apt.release}", ImageError, env=env)
        folder.rename(final)


@contextmanager
def _locked(release: str) -> Iterator[None]:
    """One at a time makes roots of a release."""
    path = cache_dir() / "lab" / "debian" / f"{release}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def mounts_of(root: Path) -> list[tuple[str, str]]:
    """What of a root takes the place of the machine's own, and where, in the order of mounting: programs and libraries.

    /usr comes last: before it, mount is the machine's.
    """
    return [(str(root / name), f"/{name}") for name in ("etc/ld.so.cache", "etc/alternatives", "usr")]


def programs_argv(root: Path) -> list[str]:
    """Words before a command that runs by the programs and libraries of a root, and finds all else as the machine has
    it, such as files, settings and network."""
    pairs = (word for pair in mounts_of(root) for word in pair)
    unshare = (find("unshare"), "--mount", "--propagation", "slave", "--")
    return [*unshare, "/bin/sh", "-e", "-c", _WITH_MOUNTS, "with-mounts", *pairs, "--"]
