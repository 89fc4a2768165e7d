"""Nova's libvirt driver, with balloon, memory backing and emulator as a flavor's memhint extra specs say.

Every definition of a domain comes from ``_get_guest_config``: boot, hard reboot, resize, rebuild, unshelve, rescue. So
an opt-out lives as long as its flavor says so. A live migration keeps the XML that the VM has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import nova.conf
from nova.objects import fields
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging

from memhint_nova import conf as memhint_conf
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


class Emulator(vconfig.LibvirtConfigGuestDevice):
    """The program that libvirt starts a guest by: Nova leaves that to libvirt, and so has no such element."""

    def __init__(self, path: str = "") -> None:
        super().__init__(root_name="emulator")
        self.path = path

    def format_dom(self) -> Any:
        """The element."""
        element = super().format_dom()
        element.text = self.path
        return element


class MemhintLibvirtDriver(libvirt_driver.LibvirtDriver):
    """``compute_driver = memhint.MemhintLibvirtDriver``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        guard.check(Balloon, Emulator)
        memhint_conf.register(CONF)
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
        specs = flavor.extra_specs if "extra_specs" in flavor else {}
        apply(guest, specs, flavor.name, CONF.memhint.small_pages_emulator)
        return guest


def apply(guest: Any, extra_specs: Mapping[str, str] | None, flavor: str, small_pages: str | None = None) -> None:
    """Change a guest's configuration as its flavor's extra specs say; nothing else of it is touched.

    :param small_pages: this host's emulator whose memory is never in huge pages, where it has one
    """
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
    if _value(specs, "huge_pages", flavor) == "deny":
        fault = _no_small_pages(guest, small_pages)
        if fault is None:
            guest.add_device(Emulator(small_pages or ""))
        else:
            # Huge pages do a VM no harm: it is started with them rather than not at all, and its agent shows them.
            LOG.warning("memhint: flavor %s: memhint:huge_pages=deny is not carried out: %s", flavor, fault)


def _no_small_pages(guest: Any, small_pages: str | None) -> str | None:
    """Why this host cannot keep a guest from huge pages; None where it can."""
    if not small_pages:
        return "[memhint] small_pages_emulator is not set on this compute"
    if guest.os_arch not in (None, fields.Architecture.from_host()):
        return f"the emulator of small pages is for the host's own architecture, and the guest's is {guest.os_arch}"
    return None


def _value(specs: Mapping[str, str], name: str, flavor: str) -> str:
    value, fault = value_of(specs, name)
    if fault is not None:
        LOG.warning("memhint: flavor %s: %s", flavor, fault)
    return value
