"""libvirt: the connection and its loss, events, domain XML, metadata, and the ways to QEMU and to the guest agent."""
