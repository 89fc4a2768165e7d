"""What the lab tests share: a test that fails shows what its agents said."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from lab.agent import AgentProcess
from tests.side_by_side import WHOLE_MACHINE, file_of, guests_on_this_machine

TAIL = 6000  # characters of each log


@pytest.fixture(scope="module", autouse=True)
def _beside_others(request: pytest.FixtureRequest) -> Iterator[None]:
    """Guests of several processes run beside each other, but for those that change something for all of them."""
    with guests_on_this_machine(alone=file_of(request.node.nodeid) in WHOLE_MACHINE):
        yield


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
