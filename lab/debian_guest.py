"""Guests that are an installed Debian: systemd, ext4, and the kernel, initramfs and guest agent of the distribution.

The disk is a root of `lab.debian_root` with a few files laid over it: the workload as a service, what a first boot sets
up, and services masked that only cost an emulated guest its time. Its key is the content.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab import patched
from lab.debian_root import debian_root
from lab.errors import ImageError
from lab.image import Image, compile_workload, filler_disk, locked
from lab.paths import cache_dir
from lab.programs import find, run
from lab.sizes import GIB

GUESTS = {"debian12": "bookworm", "debian13": "trixie"}
"""Names of such guests, in place of a kernel's, and the release that each is of."""
PACKAGES = (
    "systemd", "systemd-sysv", "udev", "dbus", "kmod", "procps", "e2fsprogs", "initramfs-tools",
    "linux-image-cloud-amd64", "qemu-guest-agent",
)  # fmt: skip
DISK_SIZE = 2 * GIB
LABEL = "memhint-guest"
WORDS = (f"root=LABEL={LABEL}", "rw")
"""What its kernel is told besides what all are."""
AGENT = "/usr/local/sbin/qemu-ga"
"""The project's own guest agent, where the guest has it."""
AGENT_DROP_IN = "/etc/systemd/system/qemu-guest-agent.service.d/memhint.conf"
"""What has systemd start that one in place of the distribution's."""

# Timers and services of nothing that happens in a lab. Each is there in a plain installation, and none of memory.
_MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
    "fstrim.timer", "systemd-timesyncd.service", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
    "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-pcrphase.service", "systemd-journal-flush.service",
    "modprobe@drm.service", "modprobe@fuse.service", "modprobe@configfs.service", "systemd-hwdb-update.service",
    "dev-hugepages.mount", "dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
)  # fmt: skip
_FILES = {
    "etc/hostname": "guest\n",
    "etc/fstab": f"LABEL={LABEL} / ext4 defaults 0 1\n",
    # Else systemd takes each boot of a new overlay for its first, and sets up everything anew.
    "etc/machine-id": "6d656d68696e742d6775657374000001\n",
    "etc/systemd/system/workload.service": (
        "[Unit]\nDescription=The lab's workload\n"
        "[Service]\nExecStart=/usr/local/sbin/workload\nRestart=always\nOOMScoreAdjust=-500\n"
    ),
}
_DROP_IN = "[Service]\nExecStart=\nExecStart={} -m virtio-serial -p /dev/virtio-ports/org.qemu.guest_agent.0 -t /run\n"
# In a mount namespace of its own, which takes the overlay with it.
_WRITE_DISK = """
set -e
mount -t overlay overlay -o "lowerdir=$1:$2" "$3"
exec mke2fs -q -t ext4 -m 0 -L "$4" -d "$3" "$5" "$6"
"""


def build(name: str, agent: str, tell: Callable[[str], None] = lambda _: None) -> Image:
    """The installed guest `name`, one of GUESTS, made unless the cache has it: two minutes the first time.

    :param agent: "stock", or "memhint" for one in which the project's own agent has taken its place
    :raises ImageError: when a package cannot be had, or the disk not be made
    """
    root = debian_root(GUESTS[name], PACKAGES, tell)
    base = cache_dir() / "lab"
    with tempfile.TemporaryDirectory(dir=base) as scratch_name:
        laid_over = Path(scratch_name) / "over"
        _lay_over(laid_over, patched.agent_program() if agent == "memhint" else None)
        final = base / "debian-guest" / f"{name}-{_key(root, laid_over)}"
        with locked(base / "build.lock"):
            if not (final / "manifest.json").exists():
                tell(f"writing the disk of a {name}")
                _write(final, root, laid_over, Path(scratch_name))
    manifest = json.loads((final / "manifest.json").read_text())
    return Image(
        final / "vmlinuz", final / "initrd", manifest["release"], filler_disk(), root=final / "disk.raw", words=WORDS
    )


def _lay_over(folder: Path, agent: Path | None) -> None:
    """The files that the packages do not have, below `folder`."""

    def place(path: str) -> Path:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    for path, text in _FILES.items():
        place(path).write_text(text)
    compile_workload(place("usr/local/sbin/workload"))
    place("etc/systemd/system/multi-user.target.wants/workload.service").symlink_to("../workload.service")
    for unit in _MASKED:
        place(f"etc/systemd/system/{unit}").symlink_to("/dev/null")
    if agent is not None:
        shutil.copy(agent, place(AGENT.lstrip("/")))
        place(AGENT_DROP_IN.lstrip("/")).write_text(_DROP_IN.format(AGENT))
    for directory in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        directory.chmod(0o755)


def _key(root: Path, laid_over: Path) -> str:
    """Hash of all that is on the disk. A root is named after what is in it."""
    digest = hashlib.sha256("\0".join((root.parent.name, _WRITE_DISK, LABEL, str(DISK_SIZE))).encode())
    for path in sorted(laid_over.rglob("*")):
        digest.update(f"\0{path.relative_to(laid_over)} {path.lstat().st_mode}\0".encode())
        if path.is_symlink():
            digest.update(str(path.readlink()).encode())
        elif path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _write(final: Path, root: Path, laid_over: Path, scratch: Path) -> None:
    (vmlinuz,) = (root / "boot").glob("vmlinuz-*")
    release = vmlinuz.name.removeprefix("vmlinuz-")
    ready, merged = scratch / "ready", scratch / "merged"
    ready.mkdir()
    merged.mkdir()
    run(
        ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", _WRITE_DISK, "disk", str(laid_over),
         str(root), str(merged), LABEL, str(ready / "disk.raw"), f"{DISK_SIZE // 1024}K"],
        "making the disk", ImageError, env={"PATH": f"{Path(find('mke2fs')).parent}:/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip
    shutil.copyfile(vmlinuz, ready / "vmlinuz")
    shutil.copyfile(root / "boot" / f"initrd.img-{release}", ready / "initrd")
    (ready / "manifest.json").write_text(json.dumps({"release": release}))
    final.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(final, ignore_errors=True)
    ready.rename(final)
