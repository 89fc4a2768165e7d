"""What the lab tests share: who has guests on the machine at a time, and what agents said where a test fails."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from lab.agent import AgentProcess
from tests.side_by_side import WHOLE_MACHINE, Alone, file_of, guests_on_this_machine

TAIL = 6000  # characters of each log
NEXT = pytest.StashKey[pytest.Item | None]()
"""The test behind the one that runs now."""
ALONE = Alone()


@pytest.fixture(scope="module", autouse=True)
def _beside_others(request: pytest.FixtureRequest) -> Iterator[None]:
    """Guests of several processes run beside each other, but for those that change something for all of them.

    Whoever has the machine for itself keeps it for the next file that needs that, too: others would have it first, and
    in the end all would wait for that file.
    """
    if file_of(request.node.nodeid) not in WHOLE_MACHINE:
        ALONE.leave()
        with guests_on_this_machine(alone=False):
            yield
        return
    ALONE.take()
    yield
    following = request.config.stash.get(NEXT, None)
    if following is None or file_of(following.nodeid) not in WHOLE_MACHINE:
        ALONE.leave()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Keep which test comes next."""
    item.config.stash[NEXT] = nextitem


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for agent in _agents(getattr(item, "funcargs", {})):
            if agent.log.exists():
                report.sections.append((str(agent.log), agent.log.read_text(errors="replace")[-TAIL:]))
    return report


def _agents(arguments: dict[str, Any]) -> list[AgentProcess]:
    """Those that a test was given, alone or among other things."""
    found = []
    for value in arguments.values():
        parts = value if isinstance(value, tuple) else (value,)
        found += [one for one in parts if isinstance(one, AgentProcess)]
    return found
