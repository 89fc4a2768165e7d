"""What a guest can be made of, by one name: a kernel with an initramfs, or an installed system."""

from __future__ import annotations

from lab import debian_guest, image, packages, patched

KINDS = (*packages.KERNEL_SERIES, *patched.KERNELS, *debian_guest.GUESTS)
"""Names of kernels, the distribution's and the project's own, and of installed systems."""


def guest_image(kind: str, progress: image.Progress | None = None, agent: str = "stock") -> image.Image:
    """What a guest of one of KINDS boots from, built unless the cache has it. Raises ImageError."""
    if kind not in debian_guest.GUESTS:
        return image.build(kind, progress, agent)
    tell = progress or (lambda *_: None)
    built = debian_guest.build(kind, agent, lambda what: tell(f"guest {kind}", what, 0, 1))
    tell(f"guest {kind}", "ready", 1, 1)
    return built
