"""How lists are shown: part by part, and with the members that were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from memhint.api.errors import bad_request
from memhint.api.route import ApiResponse, Call
from memhint.api.schemas.common import LIMIT

Plain = Mapping[str, Any]


def order_of(call: Call, default: str = "name") -> tuple[str, bool]:
    """The member that a list is sorted by, and whether it goes down."""
    key, _, direction = call.query.get("sort", default).partition(":")
    return key, direction == "desc"


def limit_of(call: Call) -> int:
    """How much of a list at most."""
    return int(call.query.get("limit", LIMIT))


def page(call: Call, name: str, items: Iterable[Plain], marker: str | None, **more: object) -> ApiResponse:
    """Part of a list, and the address of the next part."""
    found: dict[str, Any] = {name: narrowed(call, items), **more}
    if marker is not None:
        given = [(key, value) for key, value in call.request.args.items() if key != "marker"]
        found["next"] = f"{call.request.root_path}{call.request.path}?{urlencode([*given, ('marker', marker)])}"
    return ApiResponse(found)


def narrowed(call: Call, items: Iterable[Plain]) -> Sequence[Plain]:
    """The items with the members that were asked for."""
    names = call.query.get("fields")
    if names is None:
        return list(items)
    return [{name: one[name] for name in names} for one in items]


def alone(call: Call, *others: str) -> None:
    """Changes come as a whole: what narrows or sorts a list says nothing there.

    :raises Problem: 400
    """
    said = [name for name in others if name in call.request.args]
    if said:
        raise bad_request("changed_since.alone", f"changed_since cannot be combined with {', '.join(said)}")
