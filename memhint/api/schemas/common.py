"""What several resources take and give alike: names, pages, problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memhint.api.schemas.records import Schema, record, schema_of, sparse

LIMIT, LIMIT_MOST = 100, 1000
BIGGEST = 2**63 - 1  # that a database keeps
MARKER_MOST = 8192  # characters; one with a host and a VM of 255 control characters has 4,200
_TEXT = r"^[^\u0000-\u001f\u007f]*$"

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": _TEXT}
UUID: Schema = {
    "type": "string",
    "pattern": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
    "example": "6f1d3c2a-0000-4000-8000-000000000001",
}
ID: Schema = {"type": "string", "minLength": 1, "maxLength": 36, "pattern": "^[A-Za-z0-9-]+$"}
TIME: Schema = {"type": "number", "minimum": 0, "maximum": 1e11, "description": "unix seconds"}
TOKEN: Schema = {"type": "string", "pattern": "^[0-9]{1,19}$", "description": "`changed` of an earlier answer"}

PATHS: Mapping[str, Schema] = {"name": NAME, "uuid": UUID, "id": ID}

PROBLEM: Schema = {
    "type": "object",
    "required": ["errors"],
    "additionalProperties": False,
    "properties": {
        "errors": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["status", "code", "title", "detail", "request_id"],
                "additionalProperties": False,
                "properties": {
                    "status": {"type": "integer"},
                    "code": {"type": "string", "pattern": r"^memhint\.[a-z_.]+$"},
                    "title": {"type": "string"},
                    "detail": {"type": "string"},
                    "request_id": {"type": "string", "pattern": "^req-"},
                    "min_version": {"type": "string"},
                    "max_version": {"type": "string"},
                },
            },
        }
    },
}

DELIVERY: Schema = record(
    {
        "taken": schema_of(bool),
        "detail": schema_of(str),
        "refused": {**schema_of(bool), "description": "its host was reached, and does not take it"},
    }
)


def query(properties: Mapping[str, Schema]) -> Schema:
    """The parameters of a query string, none of which must be there."""
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def history_query(least_step: int) -> Schema:
    """Which time, and how many seconds each point stands for."""
    step = {"type": "integer", "minimum": least_step, "maximum": 31_536_000, "description": "seconds"}
    return query({"since": TIME, "until": TIME, "step": step})


def page_query(
    names: Iterable[str], filters: Mapping[str, Schema], sort: Iterable[str] = (), changed: bool = False
) -> Schema:
    """The parameters of a list: how much of it, from where, which members, and in which order."""
    names = list(names)
    properties: dict[str, Any] = {
        **filters,
        "limit": {"type": "integer", "minimum": 1, "maximum": LIMIT_MOST, "default": LIMIT},
        "marker": {
            "type": "string",
            "minLength": 1,
            "maxLength": MARKER_MOST,
            "pattern": _TEXT,
            "description": "where the page before ended: take the whole address from `next`",
        },
        "fields": {
            "type": "array",
            "items": {"type": "string", "enum": names},
            "minItems": 1,
            "maxItems": len(names),
            "uniqueItems": True,
            "description": "only these members, by commas",
        },
    }
    if sort:
        pattern = f"^({'|'.join(sort)})(:(asc|desc))?$"
        properties["sort"] = {"type": "string", "pattern": pattern, "description": "a member, and :asc or :desc"}
    if changed:
        properties["changed_since"] = {**TOKEN, "description": "only what changed since the answer with this `changed`"}
    return query(properties)


def page(name: str, item: Schema, changed: bool = False) -> Schema:
    """The answer of a list; of each item there is what was asked for."""
    properties: dict[str, Any] = {
        name: {"type": "array", "items": sparse(item)},
        "next": {"type": "string", "description": "the address of what follows; absent at the end"},
    }
    required = [name]
    if changed:
        properties["changed"] = {**TOKEN, "description": "say it as changed_since the next time"}
        properties["deleted"] = {"type": "array", "items": {"type": "string"}, "description": "with changed_since only"}
        required.append("changed")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def one(name: str, item: Schema) -> Schema:
    """The answer that shows one thing."""
    return record({name: item})
