"""Definitions are read one by one, and a cycle waits for few of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from memhint.virt.caller import Caller
from memhint.virt.definitions import Definitions
from memhint.virt.domain_xml import Definition
from memhint.virt.errors import CallTimeout
from tests.unit import builders

FOUND = Definition(builders.facts(), (), ())
UUIDS = [f"vm-{number}" for number in range(50)]


class SlowCaller:
    """libvirt answers too late for some, and says whose turn it was."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.late: set[str] = set()

    def call(self, what: str, function: Callable[..., Any]) -> Definition:
        (uuid,) = (cell.cell_contents for cell in function.__closure__ or ())
        self.asked.append(uuid)
        if uuid in self.late:
            raise CallTimeout(f"{what} did not return within 2 s")
        return FOUND


def test_one_that_is_late_has_no_other_waited_for() -> None:
    caller = SlowCaller()
    definitions = Definitions(cast("Caller", caller), 300.0)
    caller.late = set(UUIDS)
    found, gaps = definitions.read(UUIDS, 0.0)
    assert (len(caller.asked), found, gaps.keys()) == (1, {}, set(UUIDS))
    assert {gap.reason for gap in gaps.values()} == {CallTimeout.reason}
    tried = set(caller.asked)
    for passed in range(2, 6):  # who was not tried comes first the next time
        definitions.read(UUIDS, float(passed))
        tried |= set(caller.asked)
        assert len(tried) == len(caller.asked) == passed


def test_one_that_is_late_again_and_again_keeps_no_other_from_its_turn() -> None:
    caller = SlowCaller()
    definitions = Definitions(cast("Caller", caller), 300.0)
    caller.late = {"vm-7"}
    definitions.read(UUIDS, 0.0)
    found, gaps = definitions.read(UUIDS, 10.0)
    assert (gaps.keys(), found.keys()) == ({"vm-7"}, set(UUIDS) - {"vm-7"})
    caller.late = set()
    assert definitions.read(UUIDS, 20.0)[0].keys() == set(UUIDS)
