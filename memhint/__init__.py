"""memhint: run more VMs on the memory you own, safely."""
