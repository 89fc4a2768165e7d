"""What of a planner's state still holds when nobody planned for a while: what VMs did, nothing of what was promised."""

from __future__ import annotations

from dataclasses import replace

from memhint.planner.earned_ratio import Earned, on_another_clock
from memhint.planner.past import Past, slot_of
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState


def long_ago(state: PlannerState) -> PlannerState:
    """The state to begin with after an agent was away, on the host's same boot.

    What VMs used is as true as it was, and a past that is lost makes a VM of 7 GiB count as idle within minutes. The
    clock is the same, so windows drop what has left them. Whatever was under way (pressure, idle guests, tuning, rates
    between two looks) is not known any more, and the promise begins as that of a new agent.
    """
    return PlannerState(
        other=state.other,
        fault_in=state.fault_in,
        past=state.past,
        predictor=state.predictor,
        ksm_saving=state.ksm_saving,
        swap_most=state.swap_most,
        storms=replace(state.storms, hours=()),
        earned=state.earned,
        oom_kills=state.oom_kills,
    )


def after_boot(state: PlannerState, now: float, settings: PlannerSettings, away: float | None) -> PlannerState:
    """The state to begin with after the host was booted, moved to its new clock.

    What can only lower the promise goes on as if the host had not been away: what VMs, storms and other work did. What
    was earned raises it, and goes on only where the last boot ended in order: of one that broke off nobody knows
    whether memory was what ended it.

    :param now: seconds of the planner's clock in this boot
    :param away: seconds since the last boot went down; None where that was not in order, or no clock tells
    """
    if state.at is None:
        return long_ago(state)
    moved = long_ago(state)
    return replace(
        moved,
        other=state.other.moved(state.at, now),
        fault_in=state.fault_in.moved(state.at, now),
        past={uuid: _past(one, state.at, now, settings.forecast_window) for uuid, one in state.past.items()},
        ksm_saving=0,  # no page is merged any more
        storms=replace(moved.storms, worst=state.storms.worst.moved(state.at, now)),
        oom_kills=None,  # counted from 0 again
        earned=Earned() if away is None or away < 0 else on_another_clock(state.earned, now, away),
    )


def _past(one: Past, then: float, now: float, window: float) -> Past:
    """A VM's past, of a QEMU process that is no more: it counts in full at first, as after a hard reboot.

    It is as old as it was when it was seen last.
    """
    slots = slot_of(now, window) - slot_of(then, window)
    born = one.since + now - then
    return replace(one, instance="", first_seen=now, at=now, slot=one.slot + slots, born=born)
