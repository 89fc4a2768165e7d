"""Times Nova's scheduler with the plugin in it. Run by the Python of a Nova (nova_plugin/venv), which has no memhint.

The filter is timed on Nova's own HostState objects. The whole call is Nova's SchedulerManager.select_destinations with
its default filters and weighers; left out are what waits for others (Placement, databases, messages), which makes the
plugin's part look larger than it is. The arms take turns, and each round's cost is held against the same round of stock
Nova.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
import tracemalloc
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ARMS = ("all pass", "mixed", "none passes")
"""What the filter finds; in "mixed" a fifth of the hosts is refused."""
MIB, GIB = 1 << 20, 1 << 30
MEMORY_MB = 262144
REPORTED_AT = 1_000_000.0


def main() -> int:
    """Measure, and tell it as JSON on standard output: `python -m bench.nova_scheduler ROUNDS SIZE...`."""
    rounds, sizes = int(sys.argv[1]), [int(one) for one in sys.argv[2:]]
    print(json.dumps(measure(rounds, sizes)))
    return 0


def measure(rounds: int, sizes: Sequence[int]) -> dict[str, Any]:
    """Every figure, by number of hosts. Milliseconds of CPU, bytes, and percent of the same round of stock Nova."""
    from importlib.metadata import version

    scheduler = Scheduler()
    found: dict[str, Any] = {"nova": version("nova"), "filter": {}, "snapshot": {}, "select": {}}
    for size in sizes:
        found["filter"][size] = {arm: scheduler.filter_all(size, arm, rounds) for arm in ARMS}
        found["snapshot"][size] = scheduler.snapshot_memory(size)
    for size in sizes[-2:]:
        found["select"][size] = scheduler.select(size, rounds)
    return found


def provider(number: int) -> str:
    """The UUID of a compute."""
    return str(uuid.UUID(int=0x4000_8000_0000_0000_0000 + number))


def told(number: int, chance: random.Random, arm: str) -> dict[str, Any]:
    """A host as the admin API tells of it."""
    vms = 20 + number % 20
    change: dict[str, Any] = {}
    if arm == "none passes":
        change = {"headroom": 0}
    elif arm == "mixed" and number % 5 == 0:
        refused: list[dict[str, Any]] = [
            {"headroom": 0},
            {"admitting": False, "detail": "memory pressure 12.0 % (enters at 10 %)"},
            {"state": "stale"},
            {"psi": 40.0},
        ]
        change = refused[number // 5 % len(refused)]
    return {
        "name": f"compute-{number:05d}.example.org",
        "provider": provider(number),
        "state": "fresh",
        "epoch": f"00000001-{uuid.UUID(int=number)}",
        "sequence": 1000 + number,
        "at": REPORTED_AT,
        "period": 3600.0,
        "assigned": vms * (4096 + 128) * MIB,
        "headroom": chance.randrange(16, 128) * GIB,
        "admitting": True,
        "detail": "",
        "psi": 0.1,
        "domains": vms,
        **change,
    }


class Scheduler:
    """Nova's scheduler in this process, with computes that nobody runs."""

    def __init__(self) -> None:
        import logging

        import nova.conf
        from memhint_nova.shared import shared
        from nova import objects

        objects.register_all()
        self.conf = nova.conf.CONF
        shared(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        # As in production: INFO is written somewhere, DEBUG is not.
        logging.basicConfig(level=logging.INFO, stream=open(os.devnull, "w"))  # noqa: SIM115 - for as long as it lives

    def use(self, hosts: Sequence[Mapping[str, Any]]) -> Any:
        """Let the plugin know these hosts, as its thread would."""
        from memhint_nova import shared as module
        from memhint_nova.client import News
        from memhint_nova.counts import Counts
        from memhint_nova.refresher import Refresher

        class Once:
            def look(self, token: str | None) -> News:
                return News(tuple(hosts), (), "t", True)

        class Still(Refresher):
            def view(self) -> Any:
                return self._snapshot

        counts = Counts()
        refresher = Still(Once, counts, 5.0, wall=lambda: REPORTED_AT)
        refresher.refresh(Once())
        module._shared = module.Shared(self.conf, refresher, counts)
        return refresher

    def compute(self, number: int) -> Any:
        """Nova's record of a compute."""
        from nova import objects
        from oslo_utils import timeutils

        vms = 20 + number % 20
        used = vms * 4096 + 512
        return objects.ComputeNode(
            uuid=provider(number),
            host=f"compute-{number:05d}.example.org",
            hypervisor_hostname=f"compute-{number:05d}.example.org",
            memory_mb=MEMORY_MB,
            memory_mb_used=used,
            free_ram_mb=MEMORY_MB - used,
            free_disk_gb=1000,
            local_gb=2000,
            local_gb_used=1000,
            disk_available_least=1000,
            vcpus=128,
            vcpus_used=vms,
            updated_at=timeutils.utcnow(with_timezone=True),
            numa_topology=None,
            pci_device_pools=None,
            host_ip=None,
            hypervisor_type="QEMU",
            hypervisor_version=10000000,
            cpu_info="",
            supported_hv_specs=[],
            stats={"num_instances": str(vms), "io_workload": "0"},
            metrics="[]",
            cpu_allocation_ratio=4.0,
            ram_allocation_ratio=1.0,
            disk_allocation_ratio=1.0,
        )

    def states(self, size: int) -> list[Any]:
        """Nova's HostState of so many computes."""
        from nova.scheduler import host_manager

        found = []
        for number in range(size):
            compute = self.compute(number)
            state = host_manager.HostState(compute.host, compute.host, "cell")
            state.update(compute, {"host": compute.host}, [], {})
            found.append(state)
        return found

    def request(self) -> Any:
        """A request for one VM of 4 GiB, as a create makes it."""
        from nova import objects

        return objects.RequestSpec(
            image=objects.ImageMeta(properties=objects.ImageMetaProps()),
            numa_topology=None,
            pci_requests=objects.InstancePCIRequests(requests=[]),
            project_id="p",
            user_id="u",
            availability_zone=None,
            flavor=objects.Flavor(
                name="m1.medium",
                memory_mb=4096,
                vcpus=2,
                root_gb=20,
                ephemeral_gb=0,
                swap=0,
                extra_specs={"memhint:class": "burstable"},
            ),
            num_instances=1,
            ignore_hosts=None,
            force_hosts=None,
            force_nodes=None,
            requested_destination=None,
            retry=None,
            limits=None,
            instance_group=None,
            scheduler_hints={},
            instance_uuid=str(uuid.uuid4()),
            security_groups=objects.SecurityGroupList(),
            network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
            is_bfv=False,
            requested_resources=[],
            request_level_params=objects.RequestLevelParams(),
            requested_networks=objects.NetworkRequestList(objects=[]),
        )

    def filter_all(self, size: int, arm: str, rounds: int) -> list[float]:
        """Milliseconds of CPU."""
        from memhint_nova.filter import MemhintFilter

        chance = random.Random(1)
        self.use([told(number, chance, arm) for number in range(size)])
        states, spec, veto = self.states(size), self.request(), MemhintFilter()
        kept = len(list(veto.filter_all(states, spec)))
        wanted = {"all pass": size, "mixed": size - size // 5, "none passes": 0}[arm]
        # of those that are refused in "mixed", the stale ones pass by nominal accounting
        if not wanted <= kept <= wanted + (size // 20 if arm == "mixed" else 0):
            raise RuntimeError(f"{kept} of {size} hosts passed, {wanted} should")
        return [_timed(lambda: list(veto.filter_all(states, spec))) for _ in range(rounds)]

    def snapshot_memory(self, size: int) -> dict[str, Any]:
        """What the snapshot of so many hosts holds, and how long a whole new one takes."""
        from memhint_nova.client import News
        from memhint_nova.counts import Counts
        from memhint_nova.refresher import Refresher

        chance = random.Random(1)
        text = json.dumps([told(number, chance, "mixed") for number in range(size)])

        class Parsed:
            def look(self, token: str | None) -> News:
                return News(tuple(json.loads(text)), (), "t", True)

        refresher = Refresher(Parsed, Counts(), 5.0, wall=lambda: REPORTED_AT)
        tracemalloc.start()
        refresher.refresh(Parsed())
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        took = [_timed(lambda: refresher.refresh(Parsed())) for _ in range(9)]
        return {
            "bytes": held,
            "replace": took,
        }

    def select(self, size: int, rounds: int) -> dict[str, list[float]]:
        """select_destinations by stock Nova, with the filter, and with filter and weigher, in turn."""
        chance = random.Random(1)
        # A host that is refused need not be weighed, which makes the whole call cheaper: here none is.
        self.use([told(number, chance, "all pass") for number in range(size)])
        computes = [self.compute(number) for number in range(size)]
        arms = {
            "stock": self.manager(computes, [], []),
            "filter": self.manager(computes, ["MemhintFilter"], []),
            "filter and weigher": self.manager(computes, ["MemhintFilter"], ["memhint_nova.weigher.MemhintWeigher"]),
        }
        took: dict[str, list[float]] = {arm: [] for arm in arms}
        for turn in range(rounds + 2):
            order = list(arms)
            random.Random(turn).shuffle(order)
            for arm in order:
                spec = self.request()
                milliseconds = _timed(lambda arm=arm, spec=spec: arms[arm](spec))  # type: ignore[misc]
                if turn >= 2:  # the first two warm up
                    took[arm].append(milliseconds)
        return took

    def manager(
        self, computes: Sequence[Any], more_filters: list[str], more_weighers: list[str]
    ) -> Callable[[Any], Any]:
        """A scheduler with its default filters and weighers and these; what it would wait for answers at once."""
        from nova import context, objects
        from nova.compute import utils as compute_utils
        from nova.scheduler import host_manager, manager, request_filter, utils

        conf = self.conf
        conf.set_override(
            "available_filters",
            ["nova.scheduler.filters.all_filters", "memhint_nova.filter.MemhintFilter"],
            "filter_scheduler",
        )
        conf.clear_override("enabled_filters", "filter_scheduler")
        enabled = [*conf.filter_scheduler.enabled_filters, *more_filters]
        conf.set_override("enabled_filters", enabled, "filter_scheduler")
        weighers = ["nova.scheduler.weights.all_weighers", *more_weighers]
        conf.set_override("weight_classes", weighers, "filter_scheduler")
        now = computes[0].updated_at
        services = {
            one.host: objects.Service(
                host=one.host, binary="nova-compute", disabled=False, last_seen_up=now, created_at=now
            )
            for one in computes
        }
        conf.set_override("service_down_time", 100_000)

        class Hosts(host_manager.HostManager):  # type: ignore[misc]
            def refresh_cells_caches(self) -> None:
                self.cells = {"cell": object()}
                self.enabled_cells = [object()]

            def _init_aggregates(self) -> None:
                pass

            def _init_instance_info(self, computes_by_cell: Any = None) -> None:
                self._instance_info = {one.host: {"instances": {}, "updated": True} for one in computes}

            def _get_computes_for_cells(self, context: Any, cells: Any, compute_uuids: Any) -> Any:
                return {"cell": computes}, services

        class Nobody:
            def info(self, *args: Any, **kwargs: Any) -> None:
                pass

        requests = [
            {
                "allocations": {one.uuid: {"resources": {"MEMORY_MB": 4096, "VCPU": 2, "DISK_GB": 20}}},
                "mappings": {"": [one.uuid]},
            }
            for one in computes
        ]
        summaries: dict[str, Any] = {one.uuid: {"resources": {}, "traits": []} for one in computes}

        class Placement:
            def get_allocation_candidates(self, context: Any, resources: Any) -> Any:
                return requests, summaries, "1.36"

        class Manager(manager.SchedulerManager):  # type: ignore[misc]
            placement_client = Placement()

            def __init__(self) -> None:
                self.host_manager = Hosts()
                self.notifier = Nobody()

        compute_utils.notify_about_scheduler_action = lambda *args, **kwargs: None
        request_filter.process_reqspec = lambda *args, **kwargs: None
        utils.claim_resources = lambda *args, **kwargs: True
        made, admin = Manager(), context.get_admin_context()

        def select(spec: Any) -> Any:
            return made.select_destinations(
                admin, spec_obj=spec, instance_uuids=[spec.instance_uuid], return_objects=True, return_alternates=True
            )

        return select


def _timed(what: Callable[[], Any]) -> float:
    gc.collect()
    began = time.process_time()
    what()
    return (time.process_time() - began) * 1e3


if __name__ == "__main__":
    sys.exit(main())
