"""What every tier shares."""

from __future__ import annotations

import os
import signal
from functools import cache
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from lab import leftovers, patched, paths
from lab.debian_guest import GUESTS
from tests.side_by_side import SLOW, group, in_order, shuffled, stands_on_builds
from tests.took import keep, took_before

# No deadline: a property must not fail because the machine was busy. Where a run decides over a change it looks at the
# same examples each time; elsewhere at new ones, which is how new faults are found.
settings.register_profile("memhint", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("memhint")

# A shell that starts the tests in the background has them ignore SIGINT, and so would all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What is started from here on is found by `lab/lab down --all`, should this run be killed.
leftovers.mark()


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a test may be asked to run with in place of what it runs with."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests of each file in an order by lot")
    parser.addoption("--guest", choices=tuple(GUESTS), default="debian12", help="for tests/lab/test_debian_guest.py")


def pytest_sessionstart() -> None:
    """End what a run left that was killed together with all that looked after it."""
    if "PYTEST_XDIST_WORKER" not in os.environ and os.geteuid() == 0:
        for line in leftovers.sweep(paths.labs_dir()):
            print(f"left behind: {line}: ended", flush=True)


class ByGroup(LoadScopeScheduling):
    """Gives a process a whole group at a time, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid, built=_built(self.config))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every process is told the same, for all have to put the tests into one order."""
    node.workerinput["took"] = _took()
    node.workerinput["built"] = _built(node.config)


@cache
def _took() -> dict[str, float]:
    """Read once: another run on this machine may write it meanwhile."""
    return took_before()


@cache
def _built(config: pytest.Config) -> bool:
    """Asked once, for that takes seconds, and only where it matters. What is not there yet is built while tests run."""
    return not stands_on_builds(config.args) or patched.all_built()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroup:
    """Several processes share the tests by `tests/side_by_side.py`."""
    config.option.loadscopereorder = False
    return ByGroup(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow; where several processes run the tests, put first what others wait for."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    if (seed := config.getoption("--shuffle")) is not None:
        items[:] = [items[at] for at in shuffled([item.nodeid for item in items], seed)]
    if hasattr(config, "workerinput"):
        told = config.workerinput
        nodeids = [item.nodeid for item in items]
        items[:] = [items[at] for at in in_order(nodeids, told.get("took"), built=told.get("built", True))]


SECONDS: dict[str, float] = {}
"""What each group took in this run, where several processes share the tests."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what groups took, for the order of the next run."""
    if "PYTEST_XDIST_WORKER" not in os.environ and SECONDS and session.config.getoption("numprocesses", None):
        keep(SECONDS)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what groups take. Name what fails at once: a long run need not end before somebody looks at it."""
    SECONDS[group(report.nodeid)] = SECONDS.get(group(report.nodeid), 0.0) + report.duration
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed: {report.when}", flush=True)
