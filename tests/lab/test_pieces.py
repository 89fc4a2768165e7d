"""Every kernel boots on every QEMU with every guest agent, and is what it is said to be."""

from __future__ import annotations

import itertools
import json

import libvirt_qemu

from lab import Guest, Lab
from lab.patched import AGENTS, EMULATORS
from lab.sizes import GIB, MIB

KERNELS = ("6.1", "6.12", "6.12-memhint", "7.3-memhint")


def supports(guest: Guest, command: str) -> bool:
    answer = json.loads(libvirt_qemu.qemuAgentCommand(guest.domain(), '{"execute": "guest-info"}', 60, 0))
    return command in [one["name"] for one in answer["return"]["supported_commands"]]


def counts(guest: Guest) -> bool:
    request = json.dumps({"execute": "query-balloon-reporting"})
    return "return" in json.loads(libvirt_qemu.qemuMonitorCommand(guest.domain(), request, 0))


def test_any_of_the_pieces_go_together() -> None:
    wanted = [
        {"name": f"g-{number}", "kernel": kernel, "agent": agent, "emulator": emulator}
        for number, (kernel, agent, emulator) in enumerate(itertools.product(KERNELS, AGENTS, EMULATORS))
    ]
    with Lab(guests=0, memory=192 * MIB, budget=4 * GIB) as lab:
        for guest, one in zip(lab.hosts[0].add_guests(wanted), wanted, strict=True):
            release = str(guest.meminfo()["kernel"])
            assert release.startswith(one["kernel"].removesuffix("-memhint") + "."), one
            assert release.endswith("-memhint") == one["kernel"].endswith("-memhint"), one
            assert supports(guest, "guest-get-page-reporting") == (one["agent"] == "memhint"), one
            assert counts(guest) == (one["emulator"] == "memhint"), one
            assert guest.meminfo()["balloon"] is True, one
