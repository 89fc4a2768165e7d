"""A server (VM) of the stack, seen through Nova's API and through the workload inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lab.openstack.errors import ServerFailed
from lab.process import Process
from lab.waiting import wait_for
from lab.work_channel import WorkChannel
from lab.worker import WORK_DEADLINE, Worker

if TYPE_CHECKING:
    from openstack.connection import Connection

    from lab.openstack.compute import Compute

WORK_PORT = "memhint.lab.0"
DEADLINE = 180.0
"""Seconds for whatever Nova is asked to do with a VM; several may share one emulating core."""


class CloudContext(Protocol):
    """What a server knows of the stack that it is on."""

    @property
    def cloud(self) -> Connection:
        """Its API."""

    def compute(self, name: str) -> Compute:
        """A compute by its name."""


class Vm(Worker):
    """One server; made by Stack.boot."""

    def __init__(self, stack: CloudContext, uuid: str) -> None:
        self.stack = stack
        self.uuid = uuid

    def __repr__(self) -> str:
        return f"<Vm {self.uuid}>"

    def show(self) -> Any:
        """What Nova says of it now."""
        return self.stack.cloud.compute.get_server(self.uuid)

    @property
    def compute(self) -> Compute:
        """Where it runs now; ServerFailed when it runs nowhere."""
        name = self.show().compute_host
        if name is None:
            raise ServerFailed(f"{self.uuid} is on no compute")
        return self.stack.compute(name)

    @property
    def instance(self) -> str:
        """The name of its libvirt domain."""
        return str(self.show().instance_name)

    def wait(self, *states: str, deadline: float = DEADLINE) -> Any:
        """Wait until its status is one of `states` and nothing is being done to it."""

        def settled() -> Any:
            seen = self.show()
            if seen.task_state is not None:
                return None
            if seen.status == "ERROR" and "ERROR" not in states:
                fault = (seen.fault or {}).get("message", "no reason given")
                raise ServerFailed(f"{seen.name} is in ERROR: {fault}")
            return seen if seen.status in states else None

        return wait_for(settled, deadline, f"server {self.uuid} to be {' or '.join(states)}", 0.25)

    def ready(self, deadline: float = DEADLINE) -> Vm:
        """Wait until the workload inside answers."""
        self.work("ping", deadline)
        return self

    def live_migrate(self, to: Compute | None = None, deadline: float = DEADLINE) -> None:
        """Live-migrate it, to where the scheduler or the caller says; ServerFailed when it stayed where it was."""
        before = self.show().compute_host
        self.stack.cloud.compute.live_migrate_server(self.uuid, host=to.name if to else None, block_migration="auto")
        # Before Nova shows the task it shows the server as it was.
        seen = wait_for(
            lambda: self._moved(before) or self._migration_failed(), deadline, f"server {self.uuid} to leave {before}"
        )
        if seen is not True:
            raise ServerFailed(f"{self.uuid} stayed on {before}: its migration is {seen}")
        self.wait("ACTIVE", deadline=deadline)

    def delete(self, deadline: float = DEADLINE) -> None:
        """Delete it, and wait until Nova has forgotten it."""
        compute = self.stack.cloud.compute
        compute.delete_server(self.uuid)
        wait_for(
            lambda: compute.find_server(self.uuid, ignore_missing=True) is None, deadline, f"{self.uuid} to go", 0.25
        )

    def work(self, request: str, deadline: float = WORK_DEADLINE) -> dict[str, Any]:
        """The workload's answer to `request` (see lab/README.md for the commands)."""
        host = self.compute.host
        if host is None:
            raise ServerFailed(f"{self.uuid} is on a compute that only pretends")
        name = self.instance
        socket = host.state_dir / "var" / "qemu" / f"{WORK_PORT}.{name}.sock"
        return WorkChannel(socket, name).request(request, deadline, lambda: self._qemu() is not None)

    def pid(self) -> int:
        """Pid of its QEMU process; ServerFailed when it has none."""
        process = self._qemu()
        if process is None:
            raise ServerFailed(f"{self.uuid} does not run")
        return process.pid

    def resident(self) -> int:
        """Bytes of host memory that its QEMU process holds (VmRSS)."""
        for line in Path(f"/proc/{self.pid()}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise ServerFailed(f"{self.uuid} has no memory any more")

    def _qemu(self) -> Process | None:
        host = self.compute.host
        assert host is not None
        try:
            return Process.of(int((host.run_dir / "qemu" / f"{self.instance}.pid").read_text()))
        except FileNotFoundError:
            return None

    def _moved(self, before: str) -> bool:
        return bool(self.show().compute_host != before)

    def _migration_failed(self) -> str | None:
        newest = next(iter(self.stack.cloud.compute.migrations(instance_uuid=self.uuid)), None)
        return newest.status if newest is not None and newest.status in ("error", "failed", "cancelled") else None
