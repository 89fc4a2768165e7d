"""What an operator can tune of who merges, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from memhint.planner.dedup_auto import AutoSettings
from memhint.planner.dedup_breaks import BreakSettings
from memhint.planner.dedup_pace import PaceSettings


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """What the planner is told of dedup alone."""

    auto: AutoSettings = field(default_factory=AutoSettings)
    pace: PaceSettings = field(default_factory=PaceSettings)
    breaks: BreakSettings = field(default_factory=BreakSettings)
    cross_tenant: bool = False  # VMs of several projects may merge with each other
    empty_only: bool = False  # only empty pages are merged, with the zero page
    empty_across: bool = False  # ... or are so, of VMs of several projects at the same time
    await_looks: bool = False  # a VM merges once its memory has been looked at: ranges are found then
