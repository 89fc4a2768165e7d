"""The XML that a flavor's extra specs lead to, and a start that is refused where Nova is not as expected."""

from __future__ import annotations

import logging

import pytest
from memhint_nova import guard
from memhint_nova.driver import Balloon, Emulator, MemhintLibvirtDriver, apply
from nova.objects import fields
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver as libvirt_driver
from oslo_utils import importutils

WRAPPER = "/usr/bin/memhint-small-pages"


def guest(model: str = "virtio", virt_type: str = "kvm") -> vconfig.LibvirtConfigGuest:
    made = vconfig.LibvirtConfigGuest()
    made.virt_type = virt_type
    balloon = vconfig.LibvirtConfigMemoryBalloon()
    balloon.model = model
    balloon.period = 10 if model == "virtio" else None
    made.add_device(balloon)
    return made


def emulator_of(made) -> str | None:
    return made.format_dom().findtext("devices/emulator")


def balloon_of(made) -> dict[str, str]:
    element = made.devices[0].format_dom()
    stats = element.find("stats")
    return {**element.attrib, "period": stats.get("period") if stats is not None else None}


def merges(made) -> bool:
    return made.membacking is None or made.membacking.format_dom().find("nosharepages") is None


@pytest.mark.parametrize(
    ("specs", "reporting", "merging"),
    [
        ({}, "on", True),
        (None, "on", True),
        ({"memhint:reporting": "auto"}, "on", True),
        ({"memhint:reporting": "on", "memhint:dedup": "on"}, "on", True),
        ({"memhint:reporting": "off"}, "off", True),
        ({"memhint:dedup": "off"}, "on", False),
        ({"memhint:dedup": "auto"}, "on", True),
        ({"memhint:reporting": "OFF", "memhint:dedup": "no"}, "off", False),  # misspelt is no consent
        ({"hw:cpu_policy": "shared"}, "on", True),
    ],
)
def test_what_a_flavor_says_is_in_the_xml(specs, reporting, merging) -> None:
    made = guest()
    apply(made, specs, "f")
    assert balloon_of(made) == {
        "model": "virtio",
        "autodeflate": "on",
        "freePageReporting": reporting,
        "period": "10",
    }
    assert merges(made) is merging


def test_a_bad_value_is_warned_of(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        apply(guest(), {"memhint:reporting": "OFF"}, "small")
    assert "flavor small: memhint:reporting='OFF'" in caplog.text


def test_other_memory_backing_is_kept() -> None:
    made = guest()
    made.membacking = vconfig.LibvirtConfigGuestMemoryBacking()
    made.membacking.locked = True
    apply(made, {"memhint:dedup": "off"}, "f")
    element = made.membacking.format_dom()
    assert {child.tag for child in element} == {"locked", "nosharepages"}


def test_where_nova_gives_no_balloon_there_is_none() -> None:
    made = guest("none")
    apply(made, {"memhint:reporting": "off"}, "f")
    assert balloon_of(made)["model"] == "none"


def test_other_hypervisors_are_left_alone() -> None:
    made = guest(virt_type="lxc")
    before = made.devices[0]
    apply(made, {"memhint:dedup": "off", "memhint:huge_pages": "deny"}, "f", WRAPPER)
    assert made.devices == [before]
    assert made.membacking is None


@pytest.mark.parametrize(
    ("said", "emulator"),
    [(None, None), ("allow", None), ("deny", WRAPPER), (" deny ", WRAPPER), ("off", None)],
)
def test_small_pages_come_by_an_emulator_of_their_own(said, emulator) -> None:
    made = guest()
    apply(made, {} if said is None else {"memhint:huge_pages": said}, "f", WRAPPER)
    assert emulator_of(made) == emulator


@pytest.mark.parametrize("virt_type", ["kvm", "qemu"])
def test_a_guest_of_the_hosts_own_architecture_may_have_them(virt_type) -> None:
    made = guest(virt_type=virt_type)
    made.os_arch = fields.Architecture.from_host()
    apply(made, {"memhint:huge_pages": "deny"}, "f", WRAPPER)
    assert emulator_of(made) == WRAPPER


@pytest.mark.parametrize(("small_pages", "arch"), [(None, None), ("", None), (WRAPPER, fields.Architecture.S390X)])
def test_where_the_host_cannot_a_guest_starts_as_all_others_and_the_log_says_why(small_pages, arch, caplog) -> None:
    made = guest()
    made.os_arch = arch
    with caplog.at_level(logging.WARNING):
        apply(made, {"memhint:huge_pages": "deny"}, "dense", small_pages)
    assert emulator_of(made) is None
    why = "s390x" if arch else "small_pages_emulator is not set"
    assert "flavor dense: memhint:huge_pages=deny is not carried out" in caplog.text
    assert why in caplog.text


def test_nova_loads_it_by_the_name_of_the_documentation() -> None:
    assert importutils.import_class("nova.virt.memhint.MemhintLibvirtDriver") is MemhintLibvirtDriver


def test_this_nova_fits() -> None:
    guard.check(Balloon, Emulator)


class Renamed:
    """A Nova whose private method has another name."""


class Reordered:
    """A Nova whose private method takes something else first."""

    def _get_guest_config(self, network_info, instance):
        raise NotImplementedError


@pytest.mark.parametrize("other", [Renamed, Reordered])
def test_a_nova_that_is_not_as_expected_is_refused_with_what_to_do(other) -> None:
    with pytest.raises(guard.UnfitNova, match=r"(?s)_get_guest_config.*Use libvirt\.LibvirtDriver"):
        guard.check(Balloon, Emulator, other)


def test_xml_that_comes_out_otherwise_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(Balloon, "format_dom", vconfig.LibvirtConfigMemoryBalloon.format_dom)
    with pytest.raises(guard.UnfitNova, match="a balloon becomes"):
        guard.check(Balloon, Emulator)


def test_an_emulator_that_comes_out_otherwise_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(Emulator, "format_dom", vconfig.LibvirtConfigGuestDevice.format_dom)
    with pytest.raises(guard.UnfitNova, match="does not become <emulator>"):
        guard.check(Balloon, Emulator)


def test_no_driver_is_made_on_a_nova_that_does_not_fit(monkeypatch) -> None:
    monkeypatch.setattr(guard, "shape_fault", lambda driver: "it is another")
    monkeypatch.setattr(libvirt_driver.LibvirtDriver, "__init__", lambda self, *a, **k: pytest.fail("was made"))
    with pytest.raises(guard.UnfitNova):
        MemhintLibvirtDriver(None)


def test_a_release_that_is_not_tested_is_warned_of(monkeypatch, caplog) -> None:
    monkeypatch.setattr(guard.version, "version_string", lambda: "35.0.0")
    guard.check(Balloon, Emulator)
    assert "Nova 35.0.0 is not among those the driver is tested with" in caplog.text
