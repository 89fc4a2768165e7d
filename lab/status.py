"""What a running lab looks like now: as data, and as tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.contexts import HostContext
from lab.errors import HostError
from lab.guest import Guest
from lab.host import Host
from lab.lab import Lab
from lab.sizes import format_size


def status(lab: Lab) -> dict[str, Any]:
    """Hosts and guests with their memory in bytes. What cannot be read now is null."""
    with ThreadPoolExecutor(8) as pool:
        # Asked side by side: every guest whose agent is silent costs its whole timeout.
        guests = dict(zip(lab.guests, pool.map(_guest, lab.guests), strict=True))
    return {
        "name": lab.name,
        "directory": str(lab.directory),
        "accelerator": lab.record.accel,
        "huge_pages": lab.record.thp,
        "zram_used": lab.record.zram_used,
        "hosts": [_host(host) | {"guests": [guests[guest] for guest in host.guests]} for host in lab.hosts],
    }


def _host(host: Host) -> dict[str, Any]:
    there = host.cgroup.memory_path.exists()
    return {
        "name": host.name,
        "uri": host.uri,
        "libvirt": host.record.processes["libvirtd"].alive if "libvirtd" in host.record.processes else False,
        "budget": host.budget if there else None,
        "usage": host.usage() if there else None,
        "swap": host.lab.record.swap,
        "swap_used": host.swap_used() if there else None,
        "oom_kills": host.oom_kills() if there else None,
        "cgroup": str(host.cgroup.memory_path),
        "cgroup_version": host.cgroup.version,
        "pressure": str(host.cgroup.pressure_path) if host.cgroup.pressure_path else None,
    }


def _guest(guest: Guest) -> dict[str, Any]:
    running = guest.running()
    paused = running and guest.paused()
    try:
        resident = guest.resident() if running else None
    except (HostError, OSError):
        resident = None  # ended between the two looks
    return {
        "name": guest.name,
        "uuid": guest.uuid,
        "kernel": guest.kernel,
        "assigned": guest.memory,
        "state": "paused" if paused else "running" if running else "off",
        "resident": resident,
        # A stopped QEMU cannot answer, and asking would hold up libvirt's other calls for this guest.
        "agent": guest.agent_answers() if running and not paused and _host_answers(guest.host) else None,
    }


def _host_answers(host: HostContext) -> bool:
    try:
        host.connection()
    except HostError:
        return False
    return True


def show(data: dict[str, Any], console: Console) -> None:
    """Print what `status` gave, for people."""
    hosts = Table(title=f"lab {data['name']} ({data['accelerator'].upper()})", title_justify="left")
    for column in ("host", "budget", "used", "swap", "OOM kills", "pressure", "libvirtd"):
        hosts.add_column(column)
    for host in data["hosts"]:
        hosts.add_row(
            host["name"],
            _size(host["budget"]),
            _size(host["usage"]),
            f"{_size(host['swap_used'])} of {_size(host['swap'])}" if host["swap"] else "none",
            str(host["oom_kills"]),
            "this host" if host["pressure"] else "whole machine",
            "up" if host["libvirt"] else "down",
        )
    console.print(hosts)
    guests = Table()
    for column in ("guest", "kernel", "assigned", "resident", "state", "agent"):
        guests.add_column(column)
    for host in data["hosts"]:
        for guest in host["guests"]:
            agent = {True: "answers", False: "silent", None: "-"}[guest["agent"]]
            guests.add_row(
                f"{host['name']}/{guest['name']}",
                guest["kernel"],
                _size(guest["assigned"]),
                _size(guest["resident"]),
                guest["state"],
                agent,
            )
    console.print(guests)
    for host in data["hosts"]:
        console.print(f"{host['name']}: virsh -c '{host['uri']}' list", soft_wrap=True)
    if data["zram_used"]:
        console.print(
            f"Budgets are smaller by {format_size(data['zram_used'])} in all: "
            "compressed swap held that when the lab started."
        )


def _size(size: int | None) -> str:
    return "-" if size is None else format_size(size)
