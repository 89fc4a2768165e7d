"""What the lab tests have in common: looking at a condition for a while, and at what an agent says."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping

from lab import Guest, wait_for
from lab.agent import AgentProcess
from memhint.cli.exits import Exit
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.report import DomainReport, Report
from memhint.objects.verdict import Answer

Settings = Mapping[str, Mapping[str, object]]


def holds(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """The condition is true for as long: there is no event to wait for where nothing is to happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"did not hold for {seconds:g} s: {what}"
        time.sleep(0.25)


def lever_of(domain: DomainReport, name: LeverName) -> LeverState:
    return next(state for state in domain.levers if state.lever is name)


def named(report: Report) -> dict[str, DomainReport]:
    return {one.observation.name: one for one in report.domains}


def switch_reporting(agent: AgentProcess, guest: Guest, wanted: Observed, deadline: float = 60.0) -> None:
    """Allow it, wish it, and wait until the guest says that it is so."""
    agent.memhint("set", guest.name, "guest_actions=allow", "guest_unbind=allow", f"reporting={wanted}")
    wait_for(
        lambda: lever_of(agent.domain(guest.name), LeverName.REPORTING).observed is wanted,
        deadline,
        f"reporting of {guest.name} to be {wanted}",
    )


def wait_verdict(
    agent: AgentProcess, vm: str, lever: LeverName, answers: set[Answer], deadline: float = 60.0
) -> LeverState:
    """The first state of a VM's lever whose verdict is one of these."""

    def look() -> LeverState | None:
        found = named(agent.report()).get(vm)
        state = lever_of(found, lever) if found is not None else None
        return state if state is not None and state.verdict.answer in answers else None

    found = wait_for(look, deadline, f"{lever} of {vm} to be {' or '.join(answers)}")
    assert found is not None
    return found


def wait_refusal(agent: AgentProcess, *words: str, deadline: float = 60.0) -> subprocess.CompletedProcess[str]:
    """The first run of a command that is refused: it waits some seconds for the agent, which may come to it later."""

    def look() -> subprocess.CompletedProcess[str] | None:
        done = agent.memhint(*words, check=False)
        # The only other outcome: nobody has come to it while the command waited, and it says so.
        assert done.returncode == Exit.REFUSED or (not done.returncode and "pending" in done.stdout), done
        return done if done.returncode == Exit.REFUSED else None

    found = wait_for(look, deadline, f"memhint {' '.join(words)} to be refused")
    assert found is not None
    return found
