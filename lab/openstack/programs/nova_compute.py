"""nova-compute on a lab host, run by the stack's own Python. What the lab has to change in Nova is all here:

- the host has as much memory as the lab gave it, not as much as the machine;
- each guest gets one more channel, for the lab's workload;
- libvirt migrates although it cannot tell that both hosts see the same files;
- a pretended host is the same one after a restart.
"""

import os
import sys

from nova.cmd import compute  # first: it decides how Nova's threads work
from nova.virt import fake, node
from nova.virt.libvirt import config, driver, guest, host

MEMORY_MIB = int(os.environ["MEMHINT_LAB_HOST_MIB"])
WORK_PORT = "memhint.lab.0"
UNSAFE = 512
"""libvirt's VIR_MIGRATE_UNSAFE: it takes a directory shared by two hosts of one machine for two directories."""

guest_config = driver.LibvirtDriver._get_guest_config
migrate = guest.Guest.migrate
fake_resources = fake.FakeDriver.get_available_resource


def with_work_channel(self, instance, *words, **named):
    """Nova's guest, with the port of the lab's workload."""
    made = guest_config(self, instance, *words, **named)
    channel = config.LibvirtConfigGuestChannel()
    channel.type = "unix"
    channel.target_name = WORK_PORT
    channel.source_path = f"/var/lib/libvirt/qemu/{WORK_PORT}.{instance.name}.sock"
    made.add_device(channel)
    return made


def migrate_anyway(self, *words, **named):
    """Nova's migration, without libvirt's objection."""
    named["flags"] = named.get("flags", 0) | UNSAFE
    return migrate(self, *words, **named)


def same_node(self, refresh=False):
    """A pretended host's node, by the UUID that Nova keeps on disk for real ones."""
    return {node.get_local_node_uuid(): name for name in self.get_available_nodes()}


def same_resources(self, nodename):
    """What the pretended host has, under that UUID."""
    return {**fake_resources(self, nodename), "uuid": node.get_local_node_uuid()}


host.Host.get_memory_mb_total = lambda self: MEMORY_MIB
driver.LibvirtDriver._get_guest_config = with_work_channel
guest.Guest.migrate = migrate_anyway
fake.FakeDriver.memory_mb = MEMORY_MIB
fake.FakeDriver.get_nodenames_by_uuid = same_node
fake.FakeDriver.get_available_resource = same_resources

sys.argv[0] = "nova-compute"
compute.main()
