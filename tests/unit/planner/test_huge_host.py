"""What is wished of the host's kernel for huge pages."""

from __future__ import annotations

from dataclasses import replace

from memhint.objects.huge_host import HugeHost
from memhint.objects.ladder import Rung, RungState
from memhint.objects.lever import LeverName
from memhint.objects.relief import Relief
from memhint.planner.compaction import Compaction
from memhint.planner.huge_host import huge_host
from memhint.planner.plan import Planned
from tests.unit.agent.views import asking


def wished(*, rungs: bool = False, vain: bool = False, relief: Relief | None = None) -> HugeHost:
    made: Planned = asking()
    ladder = replace(made.state.ladder, entered=(RungState(Rung.ADMISSION, 0.0, "why"),) if rungs else ())
    state = replace(made.state, ladder=ladder, compaction=Compaction(rest=1.0 if vain else 0.0))
    return huge_host(replace(made, plan=replace(made.plan, relief=relief or Relief()), state=state))


def test_a_calm_host_is_left_as_it_is() -> None:
    assert wished().empty


def test_nobody_waits_for_huge_pages_under_pressure_or_where_it_is_in_vain() -> None:
    assert wished(rungs=True) == wished(vain=True) == HugeHost(defrag="defer")


def test_khugepaged_hurries_while_vms_get_huge_pages_again_unless_there_are_none() -> None:
    assert wished(relief=Relief(thp={"a": 1})) == HugeHost(scan_sleep=1000)
    assert wished(relief=Relief(thp={"a": 1}), vain=True).scan_sleep is None


def test_who_takes_pieces_is_named() -> None:
    assert wished(relief=Relief(recycler={"a": 1})).by == (LeverName.RECYCLER,)
