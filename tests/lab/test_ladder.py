"""The ladder's balloon rung on a real guest: shrunk by steps to what it uses, and given back when the rung is left."""

from __future__ import annotations

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import GIB, MIB
from memhint.levers.balloon import BALLOON_KNOB
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.verdict import Answer
from tests.lab.watch import named
from tests.told import pulls

GUEST = 1 * GIB
LEAST = 512 * MIB
WILLING = {"memhint:class": "best-effort", "memhint:balloon": "allow", "memhint:min_mb": str(LEAST // MIB)}
LADDER = {"ladder": {"rungs": "balloon", "climb": 1, "balloon_step_percent": 20}}
# Whatever is available, this host counts as short of memory.
PRESSED = {**LADDER, "planner": {"available_enter_percent": 98, "available_exit_percent": 99}}


def actual(guest: Guest) -> int:
    """Bytes that the balloon leaves the guest now."""
    return int(guest.domain().info()[2]) * 1024


def rungs(agent: AgentProcess) -> list[Rung]:
    return [one.rung for one in agent.report().plan.rungs]


def balloon(agent: AgentProcess, name: str) -> LeverState | None:
    """The balloon's state in a report; None where no pass over the balloons has ended that had to do with this VM."""
    return next((state for state in named(agent.report())[name].levers if state.lever is LeverName.BALLOON), None)


def answers(agent: AgentProcess, guest: Guest) -> set[Answer]:
    """What the events say of a VM's balloon."""
    events = pulls(agent.store(), guest.uuid, 200)
    return {one.answer for one in events if one.lever is LeverName.BALLOON}


def shrunk(agent: AgentProcess, name: str) -> bool:
    state = balloon(agent, name)
    return state is not None and state.observed is Observed.ON


def test_an_idle_best_effort_guest_shrinks_under_pressure_and_gets_it_back() -> None:
    with Lab(guests=0, budget=1280 * MIB, kernel="6.12") as lab:
        host = lab.hosts[0]
        willing, other = host.add_guests(
            [
                {"name": "willing", "memory": GUEST, "extra_specs": WILLING},
                {"name": "other", "memory": GUEST, "extra_specs": {**WILLING, "memhint:balloon": "deny"}},
            ]
        )
        willing.alloc("work", 300 * MIB)
        with AgentProcess(host, PRESSED) as agent:
            wait_for(lambda: rungs(agent) == [Rung.ADMISSION, Rung.BALLOON], 60.0, "the rung to be entered")
            wait_for(lambda: actual(willing) < GUEST - 100 * MIB, 60.0, "the guest to shrink")
            # The balloon moves in the middle of a pass, and its state is told once the pass has ended.
            wait_for(lambda: shrunk(agent, "willing"), 60.0, "the report to show it")
            wait_for(
                lambda: agent.report().plan.relief.balloon.get(willing.uuid) == actual(willing), 60.0, "what was asked"
            )
            assert LEAST <= actual(willing) < GUEST
            willing.touch("work")  # what it uses was left to it
            assert actual(other) == GUEST
            assert all(state.lever is not LeverName.BALLOON for state in named(agent.report())["other"].levers)
            assert agent.store().marks.get(willing.uuid, BALLOON_KNOB) is not None

            agent.configure(LADDER)
            assert agent.process is not None
            agent.process.send_signal(1)
            wait_for(lambda: not rungs(agent), 60.0, "the ladder to be left")
            wait_for(lambda: actual(willing) == GUEST, 60.0, "all of it to be given back")
            wait_for(
                lambda: agent.store().marks.get(willing.uuid, BALLOON_KNOB) is None,
                60.0,
                "nothing to be owned",
            )
            # The mark goes before the event of the same pass is written.
            wait_for(lambda: Answer.APPLIED in answers(agent, willing), 60.0, "the record of a pull")
