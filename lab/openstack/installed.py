"""memhint on a stack, as an operator installs it: the plugin in Nova, an agent per compute, a controller, the API."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests

from lab import leftovers
from lab.agent import SHORT_HORIZON, AgentProcess
from lab.openstack.compute import Compute
from lab.openstack.extras import Extras
from lab.openstack.settings import PASSWORD
from lab.openstack.stack import Stack
from lab.servers.ports import free_ports
from lab.sizes import MIB
from lab.waiting import wait_for
from memhint.api.tokens import create
from memhint.store import Store, open_store

CONTROLLER, API = "memhint-controller", "memhint-api"
_PLUGIN = Path(__file__).resolve().parents[2] / "nova_plugin"
_DATABASE = "memhint"
_FILTERS = "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,MemhintFilter"
# Agents report each second here: whatever waits for them may be as quick.
_SECTIONS = """\
[store]
url = {store}
[bus]
urls = {bus}
backoff_max = 1
[controller]
sweep = 0.5
[api]
listen = {address}
auth = token
token_file = {tokens}
rate = 0
[openstack]
capacity = write
interval = 0.5
instances_interval = 1
max_ratio = 16
smallest_vm_mib = 1024
auth_url = {auth_url}
password = {password}
"""
# As doc/fleet.md has them, for a service user that is no administrator.
_RULES = """\
"os_compute_api:servers:detail": "rule:project_reader_or_admin or role:service"
"os_compute_api:servers:detail:get_all_tenants": "rule:context_is_admin or role:service"
"os_compute_api:os-extended-server-attributes": "rule:context_is_admin or role:service"
"""


class Installed:
    """Made before the stack, because Nova is configured with it; `attach` follows when the stack is up."""

    def __init__(self, driver: bool = True) -> None:
        """:param driver: give Nova's computes memhint's driver too"""
        self.directory = leftovers.scratch("installed")
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.token, entry = create("operator", ["admin"])
        nova, nova_entry = create("nova", ["service"])
        self._tokens = self._write("tokens", f"{entry.line()}\n{nova_entry.line()}\n")
        self._nova_token = self._write("nova-token", f"{nova}\n")
        self._driver = driver
        self._address = f"127.0.0.1:{port}"
        self.agents: dict[str, AgentProcess] = {}
        self._stack: Stack | None = None
        self._store: Store | None = None

    def extras(self, reserved: int) -> Extras:
        """What Nova gets.

        :param reserved: bytes that its computes leave to their hosts, which the filter counts too
        """
        # A copy: what is built from a source tree leaves things in it.
        plugin = shutil.copytree(_PLUGIN, self.directory / "nova_plugin", ignore=shutil.ignore_patterns("tests"))
        scheduler = f"""\
[DEFAULT]
reserved_host_memory_mb = {reserved // MIB}
[filter_scheduler]
available_filters = memhint_nova.filter.MemhintFilter
enabled_filters = {_FILTERS}
weight_classes = nova.scheduler.weights.all_weighers,memhint_nova.weigher.MemhintWeigher
[memhint]
endpoint_override = {self.url}
token_file = {self._nova_token}
interval = 0.5
overhead_mib = {SHORT_HORIZON["planner"]["overhead_mib"]}
"""
        libvirt = "[DEFAULT]\ncompute_driver = memhint.MemhintLibvirtDriver\n" if self._driver else ""
        policy = self._write("nova-policy.yaml", _RULES)
        policy.chmod(0o644)
        api = f"[oslo_policy]\npolicy_file = {policy}\n"
        # The plugin is built from a copy that is no git checkout.
        os.environ.setdefault("PBR_VERSION", "0.0.0")
        return Extras(packages=(str(plugin),), nova={"scheduler": scheduler, "libvirt": libvirt, "api": api})

    def attach(self, stack: Stack) -> None:
        """Start controller and API on a stack that is up."""
        self._stack = stack
        database = stack.database()
        database.sql(f"CREATE DATABASE IF NOT EXISTS {_DATABASE}")
        open_store(database.url(_DATABASE)).close()  # its tables: the API comes up with the controller, not after it
        self._write(
            "memhint.conf",
            _SECTIONS.format(
                store=database.url(_DATABASE),
                bus=stack.broker_url(),
                address=self._address,
                tokens=self._tokens,
                auth_url=stack.environment()["OS_AUTH_URL"],
                password=PASSWORD,
            ),
        )
        self.start(CONTROLLER)
        self.start(API)

    def start(self, name: str) -> None:
        """Start the controller or the API; the latter has answered when this returns."""
        command = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(self.directory / "memhint.conf")]
        self.stack.processes.start(name, [*command, name.removeprefix("memhint-")], {"PATH": os.environ["PATH"]})
        if name == API:
            wait_for(self._answers, 60.0, "memhint's API")

    @property
    def store(self) -> Store:
        """The fleet's store; its database is open until `close`."""
        if self._store is None:
            self._store = open_store(self.stack.database().url(_DATABASE), create=False)
        return self._store

    def kill(self, name: str) -> None:
        """End one of them as a power cut would."""
        self.stack.processes.end(name, signal.SIGKILL)

    @property
    def stack(self) -> Stack:
        """The stack that it is on."""
        assert self._stack is not None, "attach comes first"
        return self._stack

    def agent(self, compute: Compute, settings: Mapping[str, Mapping[str, Any]] | None = None) -> AgentProcess:
        """Start the agent of a compute; it ends with `close`."""
        wired: dict[str, dict[str, Any]] = {
            "DEFAULT": {"period": 2},  # what is older than three of these is stale: emulated guests are given time
            "bus": {
                "urls": self.stack.broker_url(compute.name),
                "spool": self.directory / f"{compute.name}.spool",
                "flush": 1,
                "backoff_max": 1,
            },
            "nova": {"compute_id": compute.identity, "config_files": self.stack.etc / f"{compute.service}.conf"},
        }
        for group, options in (settings or {}).items():
            wired.setdefault(group, {}).update(options)
        started = self.agents[compute.name] = compute.agent(wired)
        started.start()
        return started

    def get(self, path: str) -> Any:
        """The API's answer to an operator."""
        answer = requests.get(self.url + path, headers={"X-Auth-Token": self.token}, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def verdict(self) -> str:
        """What the filter in Nova's scheduler said last, empty where it never refused."""
        lines = (self.stack.logs / "nova-scheduler.log").read_text(errors="replace").splitlines()
        said = [line.partition("memhint_nova.")[2] for line in lines if "memhint_nova." in line]
        return said[-1] if said else ""

    def close(self) -> None:
        """End what is memhint's, and remove its files."""
        for agent in self.agents.values():
            agent.stop()
        self.agents.clear()
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._stack is not None:
            for name in (API, CONTROLLER):
                self._stack.processes.end(name)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self) -> bool:
        if not self.stack.processes.alive(API):
            raise RuntimeError(f"memhint's API has ended:\n{self.stack.processes.tail(API)}")
        try:
            return requests.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def _write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o644 if name == "nova-token" else 0o600)
        return path
