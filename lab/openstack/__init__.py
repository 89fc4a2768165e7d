"""A real OpenStack on one machine: control plane, computes with libvirt and real guests, computes that pretend."""

from lab.openstack.extras import Extras
from lab.openstack.stack import Stack

__all__ = ["Extras", "Stack"]
