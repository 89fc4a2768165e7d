"""What libvirt's events are to memhint."""

from __future__ import annotations

from types import SimpleNamespace

import libvirt
import pytest

from lab.waiting import wait_for
from memhint.virt.connection import EVENTS, Connection, DomainEvent, Event

UUID = "6f1d3c2a-0000-4000-8000-000000000001"


def told(kind: DomainEvent, *details: object) -> list[Event]:
    """What a listener hears of one event."""
    heard: list[Event] = []
    connection = Connection("test:///default", heard.append)
    connection._handler(kind)(None, SimpleNamespace(UUIDString=lambda: UUID), *details, None)
    return heard


@pytest.mark.parametrize(
    "how",
    [
        libvirt.VIR_DOMAIN_EVENT_STARTED_BOOTED,
        libvirt.VIR_DOMAIN_EVENT_STARTED_MIGRATED,
        libvirt.VIR_DOMAIN_EVENT_STARTED_RESTORED,
    ],
)
def test_a_start_is_told_from_the_rest_of_a_life(how: int) -> None:
    assert told(DomainEvent.LIFECYCLE, libvirt.VIR_DOMAIN_EVENT_STARTED, how) == [Event(DomainEvent.STARTED, UUID)]


@pytest.mark.parametrize(
    "what",
    [libvirt.VIR_DOMAIN_EVENT_DEFINED, libvirt.VIR_DOMAIN_EVENT_RESUMED, libvirt.VIR_DOMAIN_EVENT_STOPPED],
)
def test_nothing_else_is_a_start(what: int) -> None:
    assert told(DomainEvent.LIFECYCLE, what, 0) == [Event(DomainEvent.LIFECYCLE, UUID)]


def test_what_is_plugged_in_may_be_memory() -> None:
    assert EVENTS[libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED] is DomainEvent.PLUGGED


def test_libvirt_itself_tells_of_a_start_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its driver for tests, which has domains in this process alone, and so nothing to keep alive."""
    monkeypatch.setattr(libvirt.virConnect, "setKeepAlive", lambda *_: 0)
    heard: list[Event] = []
    connection = Connection("test:///default", heard.append)
    domain = connection.get().lookupByName("test")
    start = Event(DomainEvent.STARTED, domain.UUIDString())
    domain.destroy()
    wait_for(lambda: Event(DomainEvent.LIFECYCLE, domain.UUIDString()) in heard, 60.0, "its end to be told")
    assert start not in heard
    domain.create()
    wait_for(lambda: start in heard, 60.0, "its start to be told")
    connection.close()


def test_a_reboot_and_an_agent_are_the_guests_affair() -> None:
    assert told(DomainEvent.AGENT, 1, 0) == [Event(DomainEvent.AGENT, UUID)]
