"""How much memory a running domain's balloon is to leave it."""

from __future__ import annotations

import libvirt

from memhint.objects.units import KIB
from memhint.virt.caller import Caller


class BalloonTarget:
    """One domain's balloon."""

    def __init__(self, caller: Caller, uuid: str) -> None:
        self._caller = caller
        self._uuid = uuid

    def set(self, size: int) -> None:
        """Ask for ``size`` bytes to be left; the guest moves there in its own time.

        :raises VirtError: what libvirt says
        """

        def ask(connection: libvirt.virConnect) -> None:
            connection.lookupByUUIDString(self._uuid).setMemoryFlags(size // KIB, libvirt.VIR_DOMAIN_AFFECT_LIVE)

        self._caller.call("balloon target", ask)
