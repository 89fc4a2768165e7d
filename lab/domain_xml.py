"""The libvirt domain of a lab guest."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

from lab.emulated_cpu import CLOCK, SPOILT
from lab.sizes import MIB

NOVA = "http://openstack.org/xmlns/libvirt/nova/1.1"
QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
WORK_PORT = "memhint.lab.0"
AGENT_PORT = "org.qemu.guest_agent.0"

TRANSLATION_CACHE = 32 * MIB
"""Bytes QEMU may fill with translated code when it emulates. Its default (a gigabyte) would fill a small host's budget.
Tried from 16 to 256 MiB: booting and filling memory take the same time, resident memory differs by 50 MiB."""


@dataclass(frozen=True)
class DomainSpec:
    """What sets one guest apart from another."""

    name: str
    uuid: str
    memory: int
    """Bytes assigned."""
    accel: str
    """"kvm" or "tcg"."""
    kernel: Path
    initrd: Path
    disk: Path
    """Sparse file behind the read-only disk the guest fills its page cache from."""
    console: Path
    """File the serial console is logged to."""
    work_socket: Path
    """Unix socket of the workload's port."""
    root: Path | None = None
    """qcow2 disk of the guest's own with its system; None where the initrd has all of it."""
    reporting: bool = True
    recycler: bool = False
    """Whether its balloon has the page recycler."""
    emulator: Path | None = None
    """QEMU's program; None is the distribution's."""
    kernel_words: tuple[str, ...] = ()
    """Added to what every kernel is told."""
    translation_cache: int = TRANSLATION_CACHE
    """Bytes QEMU may fill with translated code, where it emulates."""
    project: str | None = None
    extra_specs: dict[str, str] = field(default_factory=dict)


def kernel_command_line(spec: DomainSpec) -> str:
    """What the guest's kernel is told."""
    words = ["console=ttyS0", "quiet", "panic=1", "random.trust_cpu=on", "mitigations=off"]
    if spec.accel == "tcg":
        words += [CLOCK]
        # Nor does it test its ciphers then, which is an eighth of what a boot costs.
        words += ["cryptomgr.notests"]
        # Nor its source of jitter, a fifth of the instructions of a boot of 6.12; nothing draws from that here.
        words += ["initcall_blacklist=jent_mod_init"]
    return " ".join([*words, *spec.kernel_words])


def domain_xml(spec: DomainSpec) -> str:
    """The domain as libvirt takes it."""
    domain = ET.Element("domain", type="kvm" if spec.accel == "kvm" else "qemu")
    _text(domain, "name", spec.name)
    _text(domain, "uuid", spec.uuid)
    if spec.project is not None or spec.extra_specs:
        _nova_metadata(ET.SubElement(domain, "metadata"), spec)
    _text(domain, "memory", str(spec.memory // 1024), unit="KiB")
    _text(domain, "vcpu", "1")
    boot = ET.SubElement(domain, "os")
    _text(boot, "type", "hvm", arch="x86_64", machine="pc")
    _text(boot, "kernel", str(spec.kernel))
    _text(boot, "initrd", str(spec.initrd))
    _text(boot, "cmdline", kernel_command_line(spec))
    features = ET.SubElement(domain, "features")
    ET.SubElement(features, "acpi")
    if spec.accel == "tcg":
        _text(ET.SubElement(features, "tcg"), "tb-cache", str(spec.translation_cache // MIB), unit="MiB")
        cpu = ET.SubElement(domain, "cpu", mode="custom", match="exact")
        _text(cpu, "model", "qemu64", fallback="forbid")
        ET.SubElement(cpu, "feature", policy="disable", name=SPOILT)
    else:
        ET.SubElement(domain, "cpu", mode="host-passthrough")
    clock = ET.SubElement(domain, "clock", offset="utc")
    # As OpenStack's compute service has it. A kernel that has gone on to a better timer leaves this one ticking, which
    # costs QEMU 4 % of a core for each idle guest: six times what the guest takes.
    ET.SubElement(clock, "timer", name="hpet", present="no")
    for event, action in (("on_poweroff", "destroy"), ("on_reboot", "restart"), ("on_crash", "destroy")):
        _text(domain, event, action)
    _devices(ET.SubElement(domain, "devices"), spec)
    if spec.recycler:
        _device_property(domain, "balloon0", "page-recycler")
    return ET.tostring(domain, encoding="unicode")


def _devices(devices: ET.Element, spec: DomainSpec) -> None:
    if spec.emulator is not None:
        _text(devices, "emulator", str(spec.emulator))
    disk = ET.SubElement(devices, "disk", type="file", device="disk")
    # Past the host's page cache: reading it must fill the guest's memory and not the host's budget.
    ET.SubElement(disk, "driver", name="qemu", type="raw", cache="none", io="threads")
    ET.SubElement(disk, "source", file=str(spec.disk))
    ET.SubElement(disk, "target", dev="vda", bus="virtio")
    ET.SubElement(disk, "readonly")
    ET.SubElement(disk, "shareable")
    if spec.root is not None:
        disk = ET.SubElement(devices, "disk", type="file", device="disk")
        ET.SubElement(disk, "driver", name="qemu", type="qcow2", cache="none", io="threads", discard="unmap")
        ET.SubElement(disk, "source", file=str(spec.root))
        ET.SubElement(disk, "target", dev="vdb", bus="virtio")
    ET.SubElement(devices, "controller", type="usb", model="none")
    ET.SubElement(devices, "controller", type="virtio-serial", index="0")
    serial = ET.SubElement(devices, "serial", type="file")
    ET.SubElement(serial, "source", path=str(spec.console))
    ET.SubElement(serial, "target", port="0")
    agent = ET.SubElement(devices, "channel", type="unix")
    ET.SubElement(agent, "target", type="virtio", name=AGENT_PORT)
    work = ET.SubElement(devices, "channel", type="unix")
    ET.SubElement(work, "source", mode="bind", path=str(spec.work_socket))
    ET.SubElement(work, "target", type="virtio", name=WORK_PORT)
    balloon = ET.SubElement(
        devices, "memballoon", model="virtio", autodeflate="on", freePageReporting="on" if spec.reporting else "off"
    )
    ET.SubElement(balloon, "stats", period="2")


def _device_property(domain: ET.Element, alias: str, name: str) -> None:
    """A property of a device that libvirt has no word for, switched on."""
    ET.register_namespace("qemu", QEMU)
    override = ET.SubElement(domain, f"{{{QEMU}}}override")
    frontend = ET.SubElement(ET.SubElement(override, f"{{{QEMU}}}device", alias=alias), f"{{{QEMU}}}frontend")
    ET.SubElement(frontend, f"{{{QEMU}}}property", name=name, type="bool", value="true")


def _nova_metadata(metadata: ET.Element, spec: DomainSpec) -> None:
    """What OpenStack's compute service leaves in its domains: who owns the guest, and its flavor's extra specs."""
    ET.register_namespace("nova", NOVA)
    instance = ET.SubElement(metadata, f"{{{NOVA}}}instance")
    ET.SubElement(instance, f"{{{NOVA}}}name").text = spec.name
    flavor = ET.SubElement(instance, f"{{{NOVA}}}flavor", name="lab")
    ET.SubElement(flavor, f"{{{NOVA}}}memory").text = str(spec.memory // MIB)
    ET.SubElement(flavor, f"{{{NOVA}}}vcpus").text = "1"
    if spec.extra_specs:
        specs = ET.SubElement(flavor, f"{{{NOVA}}}extraSpecs")
        for name, value in spec.extra_specs.items():
            ET.SubElement(specs, f"{{{NOVA}}}extraSpec", name=name).text = value
    if spec.project is not None:
        owner = ET.SubElement(instance, f"{{{NOVA}}}owner")
        ET.SubElement(owner, f"{{{NOVA}}}user", uuid=f"{spec.project}-user").text = f"{spec.project}-user"
        ET.SubElement(owner, f"{{{NOVA}}}project", uuid=spec.project).text = spec.project


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = text
