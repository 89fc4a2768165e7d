"""What memhint makes of a real guest agent whose administrator blocks commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memhint.guest.capabilities import read_capabilities
from memhint.guest.commands import GET_MEMINFO, GET_PAGE_REPORTING, RECLAIM_MEMORY, SET_PAGE_REPORTING
from memhint.guest.errors import GuestCommandBlocked, GuestCommandFailed, GuestCommandMissing
from memhint.guest.files import READ_COMMANDS
from memhint.guest.page_reporting import set_page_reporting
from memhint.guest.protocol import GuestAgent
from memhint.guest.sources import read_memory, withheld
from memhint.levers.cache import CacheLever
from memhint.objects.guest import GuestSource
from memhint.objects.units import GIB
from memhint.objects.verdict import Reason
from tests.patches.command import ROOT
from tests.unit import builders

sys.path.insert(0, str(ROOT / "guest_agent" / "tests"))
import agent as qemu_ga

COMMANDS = (GET_PAGE_REPORTING, SET_PAGE_REPORTING, GET_MEMINFO, RECLAIM_MEMORY)


@pytest.fixture(scope="module", params=["7.2", "10.0"])
def program(request: pytest.FixtureRequest) -> str:
    command = ["guest_agent/build", "--series", request.param, "agent"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return built.stdout.split()[-1]


@contextmanager
def started(program: str, *words: str, state: Path | None = None) -> Iterator[GuestAgent]:
    """memhint's own conversation with the agent, over the agent's socket."""
    process = qemu_ga.Agent(program, words, state=state)

    def transport(request: str, timeout: int) -> str:
        process.raw(request.encode() + b"\n")
        answer: dict[str, Any] = process.receive()
        return json.dumps(answer)

    try:
        yield GuestAgent(transport)
    finally:
        process.stop(kill=state is not None)


def test_an_agent_that_blocks_nothing_gives_all(program: str) -> None:
    with started(program) as agent:
        assert read_capabilities(agent).refusal(frozenset(COMMANDS) | READ_COMMANDS) is None


def test_a_blocked_command_is_the_administrators_and_is_named(program: str) -> None:
    with started(program, f"--block-rpcs={SET_PAGE_REPORTING},{RECLAIM_MEMORY}") as agent:
        capabilities = read_capabilities(agent)
        assert capabilities.blocked & set(COMMANDS) == {SET_PAGE_REPORTING, RECLAIM_MEMORY}
        verdict = CacheLever().probe(builders.domain_observation(), capabilities)
        assert verdict.reason is Reason.GUEST_BLOCKED
        assert f"blocked by the guest's administrator: allow {RECLAIM_MEMORY} in" in verdict.detail
        with pytest.raises(GuestCommandBlocked, match=f"allow {SET_PAGE_REPORTING} in the agent's configuration"):
            set_page_reporting(agent, order=9)


def test_a_better_source_that_is_blocked_leaves_its_gap(program: str) -> None:
    with started(program, f"--block-rpcs={GET_PAGE_REPORTING}") as agent:
        capabilities = read_capabilities(agent)
        memory = read_memory(agent, capabilities, 1.0, 1 << 50)
        assert (memory.source, memory.total > GIB) == (GuestSource.PROC, True)
        gap = withheld(capabilities, memory)
        assert gap is not None
        assert f"allow {GET_PAGE_REPORTING} in" in gap.detail


def test_a_command_that_no_agent_has_is_missing_and_not_blocked(program: str) -> None:
    with started(program) as agent, pytest.raises(GuestCommandMissing) as found:
        agent.call("guest-no-such-command")
    assert type(found.value) is GuestCommandMissing


def test_a_list_of_what_is_allowed_blocks_the_rest(program: str) -> None:
    if "7.2" in Path(program).parts[-4]:
        pytest.skip("the agent of 7.2 knows no list of what is allowed")
    with started(program, "--allow-rpcs=guest-info,guest-get-osinfo,guest-sync") as agent:
        refusal = read_capabilities(agent).refusal(READ_COMMANDS)
    assert isinstance(refusal, GuestCommandBlocked)


def test_a_frozen_guest_is_nobodys_configuration(program: str, tmp_path: Path) -> None:
    (tmp_path / "qga.state.isfrozen").touch()
    with started(program, state=tmp_path) as agent, pytest.raises(GuestCommandFailed, match="frozen"):
        read_capabilities(agent)
