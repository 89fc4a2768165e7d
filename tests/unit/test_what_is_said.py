"""What memhint says to guests and to QEMU: the commands that the threat model names, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from oslo_config import cfg

import memhint
from memhint.agent import service
from memhint.agent.service import EVENT_SPACING, AgentService

ROOT = Path(memhint.__file__).parent
GUEST = {
    "guest-file-close",
    "guest-file-flush",
    "guest-file-open",
    "guest-file-read",
    "guest-file-write",
    "guest-fsfreeze-status",
    "guest-get-meminfo",
    "guest-get-osinfo",
    "guest-get-page-reporting",
    "guest-info",
    "guest-reclaim-memory",
    "guest-set-page-reporting",
}
MONITOR = {"qom-list", "qom-get", "qom-set", "query-balloon-reporting", "x-query-ramblock", "set-memdev-merge"}
MONITOR |= {"query-commands"}


def quoted(folder: str, pattern: str) -> set[str]:
    """Words of this form that stand in quotes anywhere in a part of memhint."""
    text = "".join(file.read_text() for file in (ROOT / folder).rglob("*.py"))
    return set(re.findall(rf'"({pattern})"', text))


@pytest.mark.parametrize("folder", ["guest", "levers", "agent", "virt"])
def test_no_other_command_is_given_to_a_guests_agent(folder: str) -> None:
    assert quoted(folder, "guest-[a-z-]+") <= GUEST


def test_no_other_command_is_given_to_qemus_monitor() -> None:
    commands = quoted("virt", "(?:qom|query|set|device|human|object|balloon|migrate|netdev|chardev|x)-[a-z-]+")
    assert commands - {"human-readable-text"} == MONITOR  # a member of an answer
    assert "qemuMonitorCommand" in (ROOT / "virt" / "monitor.py").read_text()
    others = [file for file in ROOT.rglob("*.py") if "qemuMonitorCommand" in file.read_text()]
    assert [file.name for file in others] == ["monitor.py"]


def test_events_bring_two_cycles_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(service.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(service.time, "sleep", lambda seconds: setattr(clock, "now", clock.now + seconds))
    one = AgentService(cast("cfg.ConfigOpts", SimpleNamespace(period=10.0)))
    for _ in range(5):
        began: Any = clock.now
        one._wake.set()  # a guest's agent connects, and leaves, and connects
        one._rest(began, lambda: False)
        assert clock.now - began >= EVENT_SPACING
