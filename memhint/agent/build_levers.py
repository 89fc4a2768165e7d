"""Every lever of a host: the one place in the agent that lists them, in the order in which they are pulled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from memhint.agent.runners import cache, qos, reporting, split, wake
from memhint.agent.runners.host import HostRunner
from memhint.agent.runners.ladder import LadderShown
from memhint.agent.runners.runner import LeverRunner, RunnerContext
from memhint.agent.runners.vm import VmRunner
from memhint.levers import balloon, dedup, khugepaged, recycler, swap_out, thp, tiering
from memhint.levers import reporting as in_guests
from memhint.levers.lever import HostLever, TakeUp, VmLever

TRAVELLING: Mapping[str, TakeUp] = {**balloon.TRAVELLING, **in_guests.TRAVELLING}
"""Knobs whose setting goes where a VM goes, when it is moved to another host."""
STAYING: Collection[str] = recycler.STAYING
"""Knobs that stay behind: a VM that was undefined, or has moved, has no QEMU here."""


def build_levers(context: RunnerContext) -> tuple[LeverRunner, ...]:
    """Every lever, in the order in which they are pulled; undone in the reverse order.

    Merging, which takes long in being undone, comes first and so is undone last: nothing waits for it.
    """

    def of_host(lever: HostLever[Any]) -> LeverRunner:
        return HostRunner(lever, dry_run=context.dry_run, note=context.note)

    def of_vms(lever: VmLever) -> LeverRunner:
        return VmRunner(lever, dry_run=context.dry_run, note=context.note)

    return (
        of_host(dedup.build(context)),
        of_vms(balloon.build(context)),
        qos.build(context),
        of_host(khugepaged.build(context)),
        of_vms(recycler.build(context)),
        of_vms(swap_out.build(context)),
        wake.build(context),
        of_host(tiering.build(context)),
        of_vms(thp.build(context)),
        split.build(context),
        reporting.build(context),
        cache.build(context),
        LadderShown(),
    )
