"""What Placement knows of a compute host's memory, and what memhint has done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

SAME = 1e-5  # two ratios that are closer are one


@dataclass(frozen=True, slots=True)
class NovaCompute:
    """What a host's agent finds of the nova-compute beside it."""

    provider: str  # UUID of the compute node, and so of its root resource provider
    forced_ratio: float | None = None  # ram_allocation_ratio of its configuration; None: it leaves the ratio alone


@dataclass(frozen=True, slots=True)
class Inventory:
    """The MEMORY_MB inventory of a resource provider. MiB; ``generation`` is the provider's, and fences writes."""

    generation: int
    total: int
    reserved: int
    ratio: float
    rest: Mapping[str, int] = field(default_factory=dict)  # min_unit, max_unit, step_size: kept as they are


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider with what is claimed of it, MiB by consumer (an instance's or a migration's UUID)."""

    uuid: str
    name: str
    inventory: Inventory
    allocations: Mapping[str, int] = field(default_factory=dict)


class Tenure(StrEnum):
    """Whether memhint keeps one provider's ratio."""

    MANAGED = "managed"  # it follows the headroom
    NOMINAL = "nominal"  # the host is silent: min(1.0, the ratio found)
    CONFLICT = "conflict"  # somebody else wrote it: left alone until it is adopted again
    REFUSED = "refused"  # something about this host forbids it
    RELEASED = "released"  # the ratio that was found is back


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """What the store keeps of one provider. Ratios as Placement has them; ``epoch`` and ``sequence`` name the plan."""

    provider: str
    host: str
    adopted: float  # found when memhint first came
    written: float | None = None  # by memhint, and confirmed
    intended: float | None = None  # about to be written: seen, when the answer was lost
    tenure: Tenure = Tenure.MANAGED
    detail: str = ""
    epoch: str = ""
    sequence: int = -1
    at: float = 0.0  # unix seconds of the last change, on the database's clock

    def ours(self, ratio: float) -> bool:
        """Whether Placement's present ratio is one that memhint left there."""
        ours = (self.adopted if self.written is None else self.written, self.intended)
        return any(one is not None and abs(one - ratio) < SAME for one in ours)

    def may_go_back(self, ratio: float) -> bool:
        """Whether nobody else's ratio goes where the one that was found is put back, be it there already."""
        return self.ours(ratio) or abs(self.adopted - ratio) < SAME
