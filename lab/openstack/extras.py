"""What is plugged into a stack's Nova: packages, and configuration on top of the lab's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PARTS = ("api", "conductor", "scheduler", "compute", "libvirt")
"""Parts of Nova that can be given more configuration; `libvirt` are those computes that do not pretend."""


@dataclass(frozen=True)
class Extras:
    """Everything empty is stock OpenStack."""

    packages: tuple[str, ...] = ()
    """What pip installs: paths of wheels or source trees. They must need nothing that Nova has not brought."""
    nova: Mapping[str, str] = field(default_factory=dict)
    """Text of one more configuration file, by part: it comes last, so its options win and lists of options grow."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """More environment variables for Nova's processes."""
