"""Real hosts with real guests on one machine: isolated libvirt daemons, memory budgets, guests that boot in seconds."""

from lab.guest import Guest
from lab.host import Host
from lab.lab import Lab
from lab.waiting import wait_for

__all__ = ["Guest", "Host", "Lab", "wait_for"]
