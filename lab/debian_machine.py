"""A fresh machine of a Debian release, to try a checkout on as whoever has just cloned it: `lab/lab in-debian`.

It is a root directory with little in it, entered with process ids, mounts and a name of its own. Kernel, cgroups,
devices and network are this machine's, and no service runs. The command finds a clone of the checkout and an empty
cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from lab import swap
from lab.debian_root import RELEASES, debian_root
from lab.errors import ImageError, LabError, StateError
from lab.programs import find, require_root, run

NUMBERS = {"12": "bookworm", "13": "trixie"}
"""The names of releases, by their numbers."""
PACKAGES = ("ca-certificates", "git", "make", "procps", "python3")
"""What a machine has before whoever uses it types `make`: to clone with, and what each installed Debian has."""
CLONE = "root/memhint"
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
_REACHED_BY = (
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "TERM",
)  # fmt: skip
"""Variables by which this machine reaches package indexes, and its terminal."""

# The first process of the new namespaces. The shell waits for whoever loses its parent, as an init does. chroot alone
# would not do: such a root is no mount, and who enters a mount namespace, as the lab does, comes to its own root.
_ENTER = """
set -e
cd "$1"; hostname "$2"; shift 2
mount --bind . .
cd "$PWD"
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
pivot_root . mnt
trap : INT  # is for the command, which this waits for
set +e
chroot . /bin/sh -c 'umount -l /mnt && cd /root/memhint && exec "$@"' sh "$@"
exit $?
"""

Tell = Callable[[str], None]


def release_of(text: str) -> str:
    """The name of a release, given it or its number.

    :raises StateError: when the lab knows none of that name
    """
    name = NUMBERS.get(text, text)
    if name not in RELEASES:
        known = ", ".join(f"{number} ({one})" for number, one in NUMBERS.items())
        raise StateError(f"{text!r} is no release of Debian that the lab makes machines of: it has {known}")
    return name


def make_machine(folder: Path, release: str, checkout: Path, tell: Tell) -> None:
    """See to a machine in `folder` with a fresh clone of what is committed in `checkout`.

    One that is there already keeps what was installed in it, and its cache.

    :raises ImageError: when its root cannot be made or the checkout cannot be cloned
    :raises StateError: when something else is in the folder, or a machine of another release
    """
    require_root()
    kind = folder / "release"
    if not kind.exists():
        if folder.exists() and any(folder.iterdir()):
            raise StateError(f"{folder} holds something else than a machine of this command: name another directory")
        _install(folder, release, tell)
        kind.write_text(release)
    elif kind.read_text() != release:
        raise StateError(f"{folder} has a machine of {kind.read_text()}: name another directory for {release}")
    clone = folder / "root" / CLONE
    shutil.rmtree(clone, ignore_errors=True)
    run(["git", "clone", "--quiet", "--no-hardlinks", str(checkout), str(clone)], "cloning the checkout", ImageError)


def _install(folder: Path, release: str, tell: Tell) -> None:
    made = debian_root(release, PACKAGES, tell)
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "root"
    run(["cp", "-a", "--reflink=auto", str(made), str(root)], "copying the root directory", ImageError)
    # Nobody starts services in it: their ports are this machine's.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    # What this machine goes by to reach package indexes.
    for name in ("etc/resolv.conf", "etc/hosts", _CERTIFICATES):
        if (Path("/") / name).exists():
            (root / name).unlink(missing_ok=True)
            shutil.copyfile(Path("/") / name, root / name)
    settings = run(["apt-config", "dump"], "apt's settings", ImageError).splitlines()
    acquire = "".join(f"{line}\n" for line in settings if line.startswith("Acquire::"))
    (root / "etc/apt/apt.conf.d/90machine").write_text(acquire)


def run_in_machine(folder: Path, command: Sequence[str]) -> int:
    """What a command ends with in the clone on the machine in `folder`. All that it started ends with it, or with
    this process."""
    root = folder / "root"
    argv = [
        find("setpriv"), "--pdeathsig", "KILL", "--",
        find("unshare"), "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--uts", "--ipc",
        "--", "/bin/sh", "-c", _ENTER, "enter", str(root), f"debian-{(folder / 'release').read_text()}", *command,
    ]  # fmt: skip
    env = {name: os.environ[name] for name in _REACHED_BY if name in os.environ}
    env |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    child = subprocess.Popen(argv, env=env)
    try:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                continue  # the terminal has told the command as well, which ends what it has started
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        swap.remove_below(root)


def remove_machine(folder: Path) -> None:
    """Remove all of it.

    :raises LabError: when something still uses it
    """
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    if inside := [path for path in mounted if Path(path).is_relative_to(folder)]:
        raise LabError(f"{inside[0]} is mounted: unmount it, then remove {folder}")
    shutil.rmtree(folder, ignore_errors=True)
