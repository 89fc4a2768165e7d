"""The lab's guest as a Glance image, and a flavor for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openstack.connection import Connection

from lab.errors import ImageError
from lab.image import Image
from lab.programs import run
from lab.sizes import MIB

IMAGE = "lab-guest"
FLAVOR = "lab.1g"
DISK_GIB = 16
"""Size of a guest's disk: it holds nothing, and the guest reads it to fill its page cache."""


def upload(cloud: Connection, image: Image, command_line: str, scratch: Path) -> None:
    """Kernel, initramfs and an empty disk; a server is booted from the last."""
    disk = scratch / "empty.qcow2"
    run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), str(16 * MIB)], "making a disk", ImageError)
    kernel = _image(cloud, f"{IMAGE}-kernel", image.kernel, "aki")
    initrd = _image(cloud, f"{IMAGE}-initrd", image.initrd, "ari")
    _image(
        cloud, IMAGE, disk, "qcow2", "bare", kernel_id=kernel.id, ramdisk_id=initrd.id, os_command_line=command_line,
        hw_qemu_guest_agent="yes", hw_machine_type="pc", hw_video_model="none",
    )  # fmt: skip


def flavor(cloud: Connection, name: str = FLAVOR, memory: int = 1024 * MIB, **extra_specs: str) -> Any:
    """A flavor with one CPU and `memory` bytes."""
    made = cloud.compute.create_flavor(name=name, ram=memory // MIB, vcpus=1, disk=DISK_GIB)
    if extra_specs:
        cloud.compute.create_flavor_extra_specs(made, extra_specs)
    return made


def _image(cloud: Connection, name: str, file: Path, kind: str, container: str | None = None, **properties: str) -> Any:
    client: Any = cloud.image
    made = client.create_image(
        name, filename=str(file), disk_format=kind, container_format=container or kind, visibility="public",
        wait=True, validate_checksum=False, use_import=False, **properties,
    )  # fmt: skip
    return made
