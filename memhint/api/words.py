"""The words of a request, from text to checked data: query strings and bodies, by the schema of their route."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from werkzeug import Request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import RequestEntityTooLarge

from memhint.api.errors import Problem, bad_request
from memhint.api.limits import BODY_MOST
from memhint.api.route import JSON, Schema

_SHOWN = 200  # characters of what was wrong that are said back


def query_of(given: MultiDict[str, str], schema: Schema) -> dict[str, Any]:
    """The parameters of a query string, with the schema's defaults where nothing is said.

    :raises Problem: 400 on a parameter that is unknown, said twice, or not of its schema
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    found = {name: one["default"] for name, one in properties.items() if "default" in one}
    for name, values in given.lists():
        if name not in properties:
            known = ", ".join(properties) or "none"
            raise bad_request("query.unknown", f"{_short(name)!r} is no parameter here; there are: {known}")
        if len(values) != 1:
            raise bad_request("query.repeated", f"{name} is said {len(values)} times: say it once")
        try:
            found[name] = _value(values[0], properties[name])
        except ValueError as error:
            raise bad_request("query.invalid", f"{name}: {error}") from None
    check(found, schema, "query.invalid")
    return found


def body_of(request: Request, schema: Schema) -> Any:
    """The JSON document of a request.

    :raises Problem: 400, 413 or 415
    """
    if request.mimetype != JSON:
        raise Problem(415, "body.media_type", f"send Content-Type: {JSON}")
    try:
        data = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise Problem(413, "body.too_large", f"a body has {BODY_MOST} bytes at most") from None
    try:
        document = json.loads(data, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_once)
        json.dumps(document, ensure_ascii=False).encode()  # half a character, "\\ud800", could be kept by no database
    except (ValueError, RecursionError) as error:
        why = (
            str(error) if isinstance(error, json.JSONDecodeError | _Refused) else "it is not UTF-8, or nested too deep"
        )
        raise bad_request("body.not_json", f"the body is no JSON document: {_short(why)}") from None
    check(document, schema, "body.invalid")
    return document


def check(document: object, schema: Schema, code: str) -> None:
    """Hold a document against a schema.

    :raises Problem: 400 that names the place
    """
    error = best_match(_validator(_Key(schema)).iter_errors(document))
    if error is not None:
        place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in error.absolute_path).lstrip(".")
        raise bad_request(code, f"{_short(place)}: {_short(error.message)}" if place else _short(error.message))


class _Refused(ValueError):
    """JSON that is none to memhint."""


class _Key:
    """A schema as a key: schemas are made once, and are what they are by their identity."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.schema is self.schema


@cache
def _validator(key: _Key) -> Draft202012Validator:
    return Draft202012Validator(key.schema)


def _value(text: str, schema: Schema) -> Any:
    kind = schema["type"]
    if kind == "array":
        return [_value(one, schema["items"]) for one in text.split(",")]
    if kind == "boolean":
        if text not in ("true", "false"):
            raise ValueError("say true or false")
        return text == "true"
    if kind == "integer":
        if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 20:
            raise ValueError("say a whole number")
        return int(text)
    if kind == "number":
        number = float(text) if len(text) <= 40 else math.nan
        if not math.isfinite(number):
            raise ValueError("say a number")
        return number
    return text


def _no_constant(name: str) -> float:
    raise _Refused(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"{text[:20]} is too large")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("a name is there twice")
    return found


def _short(text: str) -> str:
    shown = "".join(sign if sign.isprintable() else "?" for sign in text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
