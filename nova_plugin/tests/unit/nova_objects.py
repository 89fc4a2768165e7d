"""Nova's own objects, made without a database."""

from __future__ import annotations

from typing import Any

from nova import objects
from nova.scheduler import host_manager

from tests.told import provider

objects.register_all()


def compute_node(number: int, memory_mb: int = 16384, used_mb: int = 512 + 4096, vms: int = 2) -> objects.ComputeNode:
    """A compute with the VMs of `told`."""
    return objects.ComputeNode(
        uuid=provider(number),
        host=f"host-{number}",
        hypervisor_hostname=f"host-{number}",
        memory_mb=memory_mb,
        memory_mb_used=used_mb,
        free_ram_mb=memory_mb - used_mb,
        free_disk_gb=1000,
        local_gb=1000,
        local_gb_used=0,
        disk_available_least=1000,
        vcpus=64,
        vcpus_used=2,
        updated_at=None,
        numa_topology=None,
        pci_device_pools=None,
        host_ip=None,
        hypervisor_type="QEMU",
        hypervisor_version=1,
        cpu_info="",
        supported_hv_specs=[],
        stats={"num_instances": str(vms)},
        metrics="[]",
        cpu_allocation_ratio=16.0,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
    )


def host_state(number: int, **node: Any) -> host_manager.HostState:
    """Nova's HostState of such a compute."""
    state = host_manager.HostState(f"host-{number}", f"host-{number}", "cell")
    state.update(compute_node(number, **node), {"host": f"host-{number}"}, [], {})
    return state


def request(memory_mb: int = 2048, extra_specs: dict[str, str] | None = None, **fields: Any) -> objects.RequestSpec:
    """A request for one VM."""
    spec = objects.RequestSpec(
        instance_uuid="6c2a9a5c-0d5c-4cc1-9b6e-8b8c2a6a4b7d",
        num_instances=1,
        flavor=objects.Flavor(
            name="f", memory_mb=memory_mb, vcpus=1, root_gb=1, ephemeral_gb=0, swap=0, extra_specs=extra_specs or {}
        ),
        scheduler_hints={},
        numa_topology=None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        requested_destination=None,
    )
    for name, value in fields.items():
        setattr(spec, name, value)
    return spec
