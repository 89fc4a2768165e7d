"""A VM's definition for its next boot: changed where there is one, and never made where there is none."""

from __future__ import annotations

from typing import Any, cast

import libvirt
import pytest

from memhint.virt.caller import Caller
from memhint.virt.config import NextBoot
from memhint.virt.errors import LibvirtCallFailed

XML = "<domain><name>vm</name><devices><memballoon model='virtio' freePageReporting='on'/></devices></domain>"


class Host:
    """libvirt with one domain, and a caller of it."""

    def __init__(self, persistent: int) -> None:
        self._persistent = persistent
        self.saved = self.runs = 0
        self.defined: list[str] = []

    def call(self, what: str, function: Any) -> Any:
        return function(self)

    def lookupByUUIDString(self, uuid: str) -> Host:
        return self

    def isPersistent(self) -> int:
        return self._persistent

    def hasManagedSaveImage(self) -> int:
        return self.saved

    def isActive(self) -> int:
        return self.runs

    def XMLDesc(self, flags: int) -> str:
        assert flags & libvirt.VIR_DOMAIN_XML_INACTIVE
        return XML

    def defineXML(self, xml: str) -> None:
        self.defined.append(xml)

    def next_boot(self) -> NextBoot:
        return NextBoot(cast(Caller, self), "uuid")


def test_it_is_read_and_changed() -> None:
    host = Host(persistent=1)
    assert host.next_boot().reporting() == "on"
    host.next_boot().set_reporting(None)
    (xml,) = host.defined
    assert "freePageReporting" not in xml


def test_a_vm_that_somebody_undefined_is_not_defined_again() -> None:
    """It runs on, and for its definition libvirt gives how it runs."""
    host = Host(persistent=0)
    assert host.next_boot().reporting() is None
    with pytest.raises(LibvirtCallFailed, match="no definition"):
        host.next_boot().set_reporting(None)
    assert host.defined == []


@pytest.mark.parametrize(("saved", "runs", "anew"), [(0, 0, True), (0, 1, False), (1, 0, False)])
def test_a_vm_that_runs_or_was_saved_does_not_begin_anew(saved: int, runs: int, anew: bool) -> None:
    host = Host(persistent=1)
    host.saved, host.runs = saved, runs
    assert host.next_boot().begins_anew() is anew


def test_a_vm_that_is_restored_while_that_is_asked_does_not_begin_anew() -> None:
    """Once it runs it is not saved any more."""
    host = Host(persistent=1)
    host.saved = 1
    answers: list[int] = []

    def asked(answer: int) -> int:
        host.saved, host.runs = 0, 1
        answers.append(answer)
        return answer

    host.hasManagedSaveImage = lambda: asked(host.saved)  # type: ignore[method-assign]
    host.isActive = lambda: asked(host.runs)  # type: ignore[method-assign]
    assert not host.next_boot().begins_anew()
    assert any(answers)
