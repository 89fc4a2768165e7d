"""Key numbers over time: of the fleet as a whole, and how points are thinned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from memhint.api.route import ApiResponse, Call
from memhint.objects.codec import to_plain
from memhint.store.fleet_history import STEP

T = TypeVar("T", bound=Any)

# Of several points the one that promises least is shown: the least of what is left, the most of what is used.
_LEFT = frozenset({"headroom", "nominal_headroom", "available", "free", "reported"})
DAY = 86400.0


def show(call: Call) -> ApiResponse:
    """The sums over all hosts, oldest first."""
    since = call.query.get("since", call.parts.clock() - DAY)
    step = call.query.get("step", STEP)
    points = call.parts.fleet_history.of(since, call.query.get("until"), step)
    return ApiResponse({"points": to_plain(points)})


def thinned(points: Sequence[T], step: int | None) -> Sequence[T]:
    """One point of all in each ``step`` seconds: the worst of each number. Without a step they are as they are."""
    if step is None:
        return points
    found: dict[int, list[T]] = {}
    for one in points:
        found.setdefault(int(one.at // step), []).append(one)
    return [_worst(group, float(number * step), step) for number, group in found.items()]


def _worst(group: Sequence[T], at: float, step: int) -> T:
    names = [one.name for one in fields(group[0]) if one.name not in ("at", "span")]
    numbers = {name: _extreme(name, (getattr(one, name) for one in group)) for name in names}
    span = max(step, *(one.span for one in group)) if len(group) > 1 else max(step, group[0].span)
    return replace(group[0], at=at, span=span, **numbers)


def _extreme(name: str, values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return min(known) if name in _LEFT else max(known)
