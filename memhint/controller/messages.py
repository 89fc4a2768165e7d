"""The commands that an agent of memhint is sent; memhint.agent.commands carries them out."""

from __future__ import annotations

from memhint.bus.courier import Command
from memhint.objects.codec import to_plain
from memhint.planner.growth import GrowthTable
from memhint.store.central_policies import Wishes
from memhint.store.reclaims import HostReclaim


def policy_command(host: str, wishes: Wishes, epoch: str | None) -> Command:
    """All that an operator wishes of one VM."""
    arguments = {"domain": wishes.uuid, "values": dict(wishes.values), "version": wishes.version}
    return Command(host, "policy", wishes.uuid, arguments, epoch)


def growth_command(host: str, table: GrowthTable, epoch: str | None) -> Command:
    """What the fleet has learnt of how VMs grow."""
    return Command(host, "growth", "table", {"table": to_plain(table)}, epoch)


def reclaim_command(one: HostReclaim, now: float, epoch: str | None) -> Command:
    """A request that waits, and the seconds that are left for its beginning."""
    request = one.reclaim.request
    arguments = {"request": to_plain(request), "left": max(1.0, request.expires - now)}
    return Command(one.host, "reclaim", request.id, arguments, epoch)


def interrupt_command(one: HostReclaim, why: str, now: float, epoch: str | None) -> Command:
    """A request that was taken back. It goes along, so that an agent that does not know it does not begin it later."""
    begin = reclaim_command(one, now, epoch)
    return Command(one.host, "interrupt", begin.about, {**begin.arguments, "why": why}, epoch)
