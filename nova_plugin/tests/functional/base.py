"""Nova's API, conductor, scheduler and computes with Placement in one process, and the plugin in the scheduler."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import nova.conf
from memhint_nova import conf as memhint_conf
from memhint_nova import shared as shared_module
from memhint_nova.shared import shared
from nova.tests.functional import integrated_helpers

from tests.functional.admin_api import AdminApi

CONF = nova.conf.CONF
MIB = 1 << 20
DEADLINE = 30.0
VM = 2048  # MiB of most VMs
OVERHEAD = 128


def use_plugin(case: Any, api: AdminApi) -> None:
    """nova.conf as doc/nova.md has it, but for the pauses."""
    memhint_conf.register(CONF)
    case.flags(
        available_filters=["nova.scheduler.filters.all_filters", "memhint_nova.filter.MemhintFilter"],
        enabled_filters=["ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter", "MemhintFilter"],
        weight_classes=["nova.scheduler.weights.all_weighers", "memhint_nova.weigher.MemhintWeigher"],
        ram_weight_multiplier=0.0,
        group="filter_scheduler",
    )
    case.flags(endpoint_override=api.address, interval=0.5, first_wait=20.0, group="memhint")
    case.flags(initial_ram_allocation_ratio=8.0)


class PluginTestCase(integrated_helpers.ProviderUsageBaseTestCase):
    """Hosts of 8192 MiB, 512 of them reserved, and a Placement ratio that stops nobody: the filter decides."""

    compute_driver = "fake.MediumFakeDriver"
    hosts = ("one", "two")

    def setUp(self):
        self.memhint = AdminApi()
        shared_module.forget()
        use_plugin(self, self.memhint)
        super().setUp()
        self.addCleanup(self.memhint.stop)
        self.addCleanup(shared_module.forget)
        self.computes = {name: self._start_compute(name) for name in self.hosts}
        self.providers = {name: self._get_provider_uuid_by_host(name) for name in self.hosts}
        self.flavor = self._create_flavor(memory_mb=VM, vcpu=1, ephemeral=0)
        for name in self.hosts:
            self.say(name, room=0)

    def flags(self, **kw):
        super().flags(**kw)
        if "compute_driver" in kw:
            super().flags(api_paste_config=os.path.join(sys.prefix, "etc/nova/api-paste.ini"), group="wsgi")

    def say(self, name: str, room: int = 0, vms: int = 0, **fields: Any) -> None:
        """A host's agent reports, and the scheduler has heard of it.

        :param room: VMs of 2048 MiB that its headroom is good for
        :param vms: such VMs that it has seen
        """
        report = {
            "provider": self.providers[name],
            "state": "fresh",
            "period": 600.0,
            "assigned": vms * (VM + OVERHEAD) * MIB,
            "headroom": room * (VM + OVERHEAD) * MIB,
            "admitting": True,
            "detail": "",
            "psi": 0.0,
            "domains": vms,
            **fields,
        }
        mark = self.memhint.tell(name, **report)
        refresher = shared(CONF).refresher
        until = time.monotonic() + DEADLINE
        while True:
            known = refresher.view().hosts.get(name)
            if known is not None and known.mark == mark:
                return
            self.assertLess(time.monotonic(), until, f"the scheduler does not hear of {name}")
            time.sleep(0.05)

    def vetoes(self) -> dict[str, int]:
        """What was refused so far, by reason."""
        counts = shared(CONF).counts.all()
        return {name.removeprefix("veto."): count for name, count in counts.items() if name.startswith("veto.")}

    def create(self, expected: str = "ACTIVE", **where: Any) -> dict[str, Any]:
        """A VM of the test's flavor."""
        where.setdefault("flavor_id", self.flavor)
        return self._create_server(networks="none", expected_state=expected, **where)

    @staticmethod
    def host_of(server: dict[str, Any]) -> str | None:
        """Where a VM is."""
        return server["OS-EXT-SRV-ATTR:host"]
