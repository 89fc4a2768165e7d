"""What every tier shares."""

import os

import pytest
from hypothesis import settings

from lab import leftovers
from tests.side_by_side import SLOW, group, in_order

# No deadline: a property must not fail because the machine was busy. Where a run decides over a change it looks at the
# same examples each time; elsewhere at new ones, which is how new faults are found.
settings.register_profile("memhint", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("memhint")

# What is started from here on is found by `lab/lab down --all`, should this run be killed.
leftovers.mark()


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow; where several processes run the tests, say which stay together and which begin."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        items[:] = in_order(items)
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group(item)))
