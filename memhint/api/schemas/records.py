"""Schemas of the records of memhint.objects, made of their fields: an answer cannot say what its schema does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from memhint.objects.words import UNKNOWN, Word

Schema = dict[str, Any]

_PLAIN: Mapping[Any, str] = {int: "integer", float: "number", str: "string", bool: "boolean", NoneType: "null"}


def schema_of(kind: Any) -> Schema:
    """The schema of a record, or of the type of a field.

    :raises TypeError: on a type that no record has
    """
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": words_of(kind)}
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return record({one.name: schema_of(hints[one.name]) for one in fields(kind)})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return nullable(*(schema_of(one) for one in arguments if one is not NoneType))
    if origin is tuple or origin is frozenset or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return {"type": "array", "items": schema_of(arguments[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    raise TypeError(f"no schema for {kind}")


def words_of(kind: type[Enum]) -> list[str]:
    """The words that an answer may have; a newer agent's word is shown as unknown."""
    also = [UNKNOWN] if issubclass(kind, Word) else []
    return list(dict.fromkeys([*(str(one) for one in kind), *also]))


def record(properties: Mapping[str, Schema]) -> Schema:
    """An object with exactly these members."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def sparse(one: Schema) -> Schema:
    """The same object with some of its members left out."""
    return {name: value for name, value in one.items() if name != "required"}


def extended(one: Schema, more: Mapping[str, Schema]) -> Schema:
    """The same object with further members."""
    return record({**one["properties"], **more})


def nullable(*schemas: Schema) -> Schema:
    """One of these, or null."""
    if len(schemas) == 1 and isinstance(schemas[0].get("type"), str) and "enum" not in schemas[0]:
        return {**schemas[0], "type": [schemas[0]["type"], "null"]}
    return {"anyOf": [*schemas, {"type": "null"}]}
