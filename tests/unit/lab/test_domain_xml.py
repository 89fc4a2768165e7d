from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from lab.domain_xml import NOVA, DomainSpec, domain_xml

SPEC = DomainSpec(
    name="guest-1",
    uuid="00000000-0000-4000-8000-000000000001",
    memory=512 << 20,
    accel="tcg",
    kernel=Path("/k"),
    initrd=Path("/i"),
    disk=Path("/d"),
    console=Path("/c"),
    work_socket=Path("/w"),
)


def build(spec: DomainSpec) -> ET.Element:
    return ET.fromstring(domain_xml(spec))


def attribute(domain: ET.Element, path: str, name: str) -> str | None:
    found = domain.find(path)
    assert found is not None, path
    return found.get(name)


def test_memory_and_reporting() -> None:
    domain = build(SPEC)
    assert domain.findtext("memory") == str(512 * 1024)
    assert attribute(domain, "memory", "unit") == "KiB"
    assert attribute(domain, "devices/memballoon", "freePageReporting") == "on"
    assert attribute(domain, "devices/memballoon", "autodeflate") == "on"
    assert attribute(domain, "devices/memballoon/stats", "period") == "2"
    assert attribute(build(replace(SPEC, reporting=False)), "devices/memballoon", "freePageReporting") == "off"


def test_the_emulator_is_libvirts_own_choice_unless_given() -> None:
    assert build(SPEC).find("devices/emulator") is None
    assert build(replace(SPEC, emulator=Path("/q/qemu"))).findtext("devices/emulator") == "/q/qemu"


def test_emulation_bounds_its_translation_cache_and_kvm_has_none() -> None:
    assert attribute(build(SPEC), ".", "type") == "qemu"
    assert build(SPEC).find("features/tcg/tb-cache") is not None
    kvm = build(replace(SPEC, accel="kvm"))
    assert attribute(kvm, ".", "type") == "kvm"
    assert kvm.find("features/tcg") is None
    assert attribute(kvm, "cpu", "mode") == "host-passthrough"


def test_only_an_emulated_guest_is_without_cmpxchg16b() -> None:
    (feature,) = build(SPEC).findall("cpu/feature")
    assert (feature.get("policy"), feature.get("name")) == ("disable", "cx16")
    assert build(replace(SPEC, accel="kvm")).find("cpu/feature") is None


def test_both_channels_and_a_read_only_disk_past_the_page_cache() -> None:
    domain = build(SPEC)
    names = [target.get("name") for target in domain.findall("devices/channel/target")]
    assert names == ["org.qemu.guest_agent.0", "memhint.lab.0"]
    assert attribute(domain, "devices/disk/driver", "cache") == "none"
    assert domain.find("devices/disk/readonly") is not None


def test_metadata_only_for_a_project_or_extra_specs() -> None:
    assert build(SPEC).find("metadata") is None
    domain = build(replace(SPEC, project="p1", extra_specs={"memhint:dedup": "off"}))
    names = {"nova": NOVA}
    project = domain.find("metadata/nova:instance/nova:owner/nova:project", names)
    assert project is not None
    assert project.get("uuid") == "p1"
    spec = domain.find("metadata/nova:instance/nova:flavor/nova:extraSpecs/nova:extraSpec", names)
    assert spec is not None
    assert (spec.get("name"), spec.text) == ("memhint:dedup", "off")


def test_names_are_escaped() -> None:
    assert build(replace(SPEC, name="a<b&c")).findtext("name") == "a<b&c"


def test_an_installed_guest_has_a_disk_of_its_own_beside_the_one_that_all_read() -> None:
    assert [one.get("dev") for one in build(SPEC).findall("devices/disk/target")] == ["vda"]
    domain = build(replace(SPEC, root=Path("/r/guest.qcow2"), kernel_words=("root=LABEL=x", "rw")))
    shared, own = domain.findall("devices/disk")
    assert (shared.find("readonly") is not None, own.find("readonly") is None) == (True, True)
    assert attribute(own, "source", "file") == "/r/guest.qcow2"
    assert attribute(own, "driver", "type") == "qcow2"
    assert (domain.findtext("os/cmdline") or "").endswith(" root=LABEL=x rw")
