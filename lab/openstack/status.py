"""What a running stack looks like now, as data."""

from __future__ import annotations

from typing import Any

from lab.openstack.compute import Compute
from lab.openstack.services import APIS
from lab.openstack.stack import Stack


def status(stack: Stack) -> dict[str, Any]:
    """Services and computes, memory in bytes. What cannot be asked now is null."""
    ports = {api.name: stack.network.url(api.port, api.path) for api in APIS}
    try:
        hosts = [server.compute_host for server in stack.cloud.compute.servers(all_projects=True)]
    except Exception:  # noqa: BLE001 - whatever keeps the services from answering, what remains is still shown
        hosts = None
    return {
        "name": stack.lab.name,
        "release": stack.record.release,
        "directory": str(stack.lab.directory),
        "virtualenv": str(stack.venv),
        "services": [{"name": name, "pid": _pid(stack, name), "address": ports.get(name)} for name in stack.services],
        "computes": [_compute(stack, one, hosts) for one in stack.computes],
    }


def _pid(stack: Stack, name: str) -> int | None:
    process = stack.processes.process(name)
    return process.pid if process is not None and process.alive else None


def _compute(stack: Stack, one: Compute, hosts: list[str | None] | None) -> dict[str, Any]:
    try:
        inventory = stack.inventory(one)
    except Exception:  # noqa: BLE001 - as above
        inventory = None
    return {
        "name": one.name,
        "uuid": one.uuid if one.identity.exists() else None,
        "memory": one.host.budget if one.host else stack.record.fake_memory,
        "used": one.host.usage() if one.host else None,
        "vms": None if hosts is None else hosts.count(one.name),
        "ratio": inventory["allocation_ratio"] if inventory else None,
        "uri": one.host.uri if one.host else None,
    }
