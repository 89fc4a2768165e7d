"""What of a planner's state still holds when nobody planned for a while: what VMs did, nothing of what was promised."""

from __future__ import annotations

from dataclasses import replace

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
        storms=replace(state.storms, hours=()),
        earned=state.earned,
    )
