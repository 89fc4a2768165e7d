"""``compute_driver = memhint.MemhintLibvirtDriver``: Nova loads drivers from below nova.virt only."""

from memhint_nova.driver import MemhintLibvirtDriver

__all__ = ["MemhintLibvirtDriver"]
