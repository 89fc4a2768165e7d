"""Nova's libvirt driver, with the balloon and the memory backing as a flavor's memhint extra specs say.

Every definition of a domain comes from ``_get_guest_config``: boot, hard reboot, resize, rebuild, unshelve, rescue. So
an opt-out lives as long as its flavor says so. A live migration keeps the XML that the VM has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import nova.conf
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging

from memhint_nova import guard
from memhint_nova.keys import value_of

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF


class Balloon(vconfig.LibvirtConfigMemoryBalloon):
    """Nova's balloon with free page reporting on or off. Nova before 32.0 says neither that nor autodeflate."""

    reporting = True

    def format_dom(self) -> Any:
        """The element."""
        element = super().format_dom()
        if self.model == "virtio":
            element.set("autodeflate", "on")
            element.set("freePageReporting", "on" if self.reporting else "off")
        return element


class MemhintLibvirtDriver(libvirt_driver.LibvirtDriver):
    """``compute_driver = memhint.MemhintLibvirtDriver``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        guard.check(Balloon)
        super().__init__(*args, **kwargs)

    def init_host(self, host: str) -> None:
        """Says what would make it useless, then starts as Nova's does."""
        if CONF.libvirt.mem_stats_period_seconds <= 0:
            LOG.warning(
                "memhint: [libvirt] mem_stats_period_seconds is not above 0: Nova gives no VM a balloon, so none can "
                "report free memory"
            )
        super().init_host(host)

    def _get_guest_config(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        guest = super()._get_guest_config(instance, *args, **kwargs)
        flavor = instance.flavor
        apply(guest, flavor.extra_specs if "extra_specs" in flavor else {}, flavor.name)
        return guest


def apply(guest: Any, extra_specs: Mapping[str, str] | None, flavor: str) -> None:
    """Change a guest's configuration as its flavor's extra specs say; nothing else of it is touched."""
    if guest.virt_type not in ("qemu", "kvm"):
        return
    specs = extra_specs or {}
    reporting = _value(specs, "reporting", flavor)
    for place, device in enumerate(guest.devices):
        if isinstance(device, vconfig.LibvirtConfigMemoryBalloon):
            balloon = Balloon()
            balloon.__dict__.update(device.__dict__)
            balloon.reporting = reporting != "off"
            guest.devices[place] = balloon
    # dedup is off by default too, but then the host's agent sees to it at run time and an operator may change it.
    if "memhint:dedup" in specs and _value(specs, "dedup", flavor) == "off":
        if guest.membacking is None:
            guest.membacking = vconfig.LibvirtConfigGuestMemoryBacking()
        guest.membacking.sharedpages = False


def _value(specs: Mapping[str, str], name: str, flavor: str) -> str:
    value, fault = value_of(specs, name)
    if fault is not None:
        LOG.warning("memhint: flavor %s: %s", flavor, fault)
    return value
