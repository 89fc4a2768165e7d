"""The main job on a real OpenStack, step by step: a full host, guests that free memory, and VMs that then fit.

It prints nothing: whoever shows it is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.at_once import at_once
from lab.errors import LabError
from lab.openstack.compute import Compute
from lab.openstack.errors import ServerFailed
from lab.openstack.images import flavor
from lab.openstack.installed import Installed
from lab.openstack.stack import Stack
from lab.openstack.vm import Vm
from lab.sizes import GIB, MIB
from lab.waiting import wait_for

FLAVOR = "memhint.1g"
SPECS = {"memhint:class": "burstable"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes in bytes."""

    host: str = "host-1"
    memory: int = 5 * GIB
    reserved: int = 1 * GIB
    swap: int = 24 * GIB  # of two hosts
    work: int = 640 * MIB  # what each guest fills and frees
    most: int = 8  # VMs that it stops at
    seconds: float = 300.0  # without room for one more: the host is full, or its guests gave nothing back


@dataclass(slots=True)
class Packed:
    """What was found."""

    nominal: int = 0
    refused: str = ""  # why the next one was, at the ratio 1.0
    running: int = 0
    answering: int = 0
    ratios: list[tuple[float, float]] = field(default_factory=list)  # seconds since the begin, and Placement's ratio
    highest_use: int = 0
    budget: int = 0
    swap_used: int = 0
    oom_kills: int = 0
    booted: list[tuple[float, str]] = field(default_factory=list)
    ratio_in_storm: float | None = None


class Packing:
    """One host of a stack that is up, with memhint installed."""

    def __init__(
        self, stack: Stack, installed: Installed, settings: Settings, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self.stack, self.installed, self.settings, self._tell = stack, installed, settings, tell
        self.vms: list[Vm] = []
        self.result = Packed(budget=settings.memory)
        self._began = time.monotonic()
        found = stack.cloud.compute.find_flavor(FLAVOR)
        if found is None:
            flavor(stack.cloud, FLAVOR, GIB, **SPECS)

    @property
    def compute(self) -> Compute:
        """The host that is packed."""
        return self.stack.compute(self.settings.host)

    def ratio(self) -> float:
        """Placement's, now."""
        inventory = self.stack.inventory(self.compute)
        if inventory is None:
            raise LabError(f"Placement knows no memory of {self.settings.host}")
        return float(inventory["allocation_ratio"])

    def fill(self) -> int:
        """Boot VMs until Nova refuses one; how many run."""
        while True:
            if not self.boot():
                break
            self._say(f"{self.vms[-1].show().name} runs")
        self.result.nominal = len(self.vms)
        return self.result.nominal

    def work_and_free(self) -> None:
        """Every guest fills its memory and frees it again."""

        def one(vm: Vm) -> None:
            vm.alloc("work", self.settings.work, content="random")
            vm.free("work")

        with at_once(3) as pool:
            for done in [pool.submit(one, vm) for vm in self.vms]:
                done.result()

    def pack(self) -> int:
        """Boot further VMs as Nova lets them in, until there are enough or no more fit; how many run."""
        end = time.monotonic() + self.settings.seconds
        while len(self.vms) < self.settings.most and time.monotonic() < end:
            if self.room() > len(self.vms) and self.boot():
                self._say(f"{len(self.vms)} VMs run at the ratio {self.ratio():g}")
                end = time.monotonic() + self.settings.seconds
            else:
                time.sleep(0.5)
            self.look()
        self.result.running = len(self.vms)
        return self.result.running

    def look(self) -> None:
        """Note what the host uses, and the ratio."""
        host = self.compute.host
        assert host is not None
        self.result.highest_use = max(self.result.highest_use, host.usage())
        self.result.swap_used = max(self.result.swap_used, host.swap_used())
        self.result.oom_kills = host.oom_kills()
        self.result.ratios.append((time.monotonic() - self._began, self.ratio()))

    def verify(self) -> Packed:
        """Ask every guest whether it lives."""
        self.look()
        self.result.answering = sum(vm.work("ping") is not None for vm in self.vms)
        return self.result

    def storm(self, size: int) -> None:
        """Every guest wants memory at once, and keeps it."""
        with at_once(4) as pool:
            for done in [pool.submit(vm.alloc, "storm", size, content="random") for vm in self.vms]:
                done.result()

    def boot(self) -> bool:
        """Boot one more VM; whether Nova let it in."""
        name = f"vm-{len(self.vms) + 1}"
        try:
            vm = self.stack.boot(name, flavor=FLAVOR, host=self.settings.host)
        except ServerFailed as error:
            self.result.refused = f"{error} {self.installed.verdict()}"
            self._say(self.result.refused)
            for server in self.stack.cloud.compute.servers(name=f"^{name}$"):
                Vm(self.stack, server.id).delete()
            return False
        self.vms.append(vm)
        self.result.booted.append((time.monotonic() - self._began, name))
        return True

    def room(self) -> int:
        """VMs of the flavor that Placement's ratio has room for, those that run included."""
        return int(self.ratio() * self._base() * MIB // GIB)

    def _base(self) -> int:
        inventory = self.stack.inventory(self.compute)
        assert inventory is not None
        return int(inventory["total"]) - int(inventory["reserved"])

    def _say(self, text: str) -> None:
        self._tell(f"{time.monotonic() - self._began:6.1f} s  {text}")


def ready(installed: Installed, stack: Stack, name: str) -> None:
    """Wait until the agent of a compute is known to the fleet, with its provider.

    :raises LabError: when it does not become known
    """
    provider = stack.compute(name).uuid

    def known() -> bool:
        return any(one["provider"] == provider for one in installed.get("/v1/hosts")["hosts"])

    wait_for(known, 60.0, f"the fleet to know {name}")
