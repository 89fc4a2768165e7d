"""Parses and checks a request: its query string and body, by the schemas of the route."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from werkzeug import Request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import RequestEntityTooLarge

from memhint.api.errors import Problem, bad_request
from memhint.api.limits import BODY_MOST
from memhint.api.route import JSON, Schema
from memhint.api.schemas.common import UUID
from memhint.objects.strict_json import NotJson, finite, no_constant

DEPTH_MOST = 32  # of a body; none of the schemas is half as deep
ERRORS_MOST = 16  # that are compared for the one to tell of
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
            raise bad_request("query.unknown", f"{_short(name)!r} is not a parameter here; the parameters are: {known}")
        if len(values) != 1:
            raise bad_request("query.repeated", f"{name} is given {len(values)} times: give it once")
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
        raise Problem(413, "body.too_large", f"a body may have {BODY_MOST} bytes at most") from None
    try:
        document = json.loads(data, parse_constant=no_constant, parse_float=finite, object_pairs_hook=_once)
        _hold_depth(document)
        json.dumps(document, ensure_ascii=False).encode()  # half a character, "\\ud800", could be kept by no database
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, json.JSONDecodeError | NotJson) else "it is not UTF-8, or nested too deep"
        raise bad_request("body.not_json", f"the body is not JSON: {_short(why)}") from None
    check(document, schema, "body.invalid")
    return document


def check(document: object, schema: Schema, code: str) -> None:
    """Hold a document against a schema.

    :raises Problem: 400 that names the place
    """
    error = best_match(islice(_validator(_Key(schema)).iter_errors(document), ERRORS_MOST))
    if error is not None:
        place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in error.absolute_path).lstrip(".")
        told = _told(error)
        raise bad_request(code, f"{_short(place)}: {told}" if place else told)


def _told(error: ValidationError) -> str:
    """What is wrong. The words of our own schemas are said in full: who misspelt one needs the list of them."""
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        strange = next(name for name in error.instance if name not in known)
        return f"{_short(repr(strange))} is not a member here: use {', '.join(known) or 'none'}"
    if error.validator == "enum":
        return f"{_short(repr(error.instance))} is not known here: use {', '.join(map(str, error.validator_value))}"
    return _short(error.message)


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
    return _Validator(key.schema)


def _unique(_validator: Any, wanted: bool, found: Any, _schema: Schema) -> Iterator[ValidationError]:
    # jsonschema compares each with each where their types differ: minutes for what fits into a body. Our lists are of
    # texts; what is none is told of by `items`.
    texts = wanted and isinstance(found, list) and all(isinstance(one, str) for one in found)
    if texts and len(set(found)) != len(found):
        yield ValidationError("something is there twice")


def _items(validator: Any, items: Schema, found: Any, schema: Schema) -> Iterator[ValidationError]:
    # A list that is too long is not looked into: maxItems tells of it.
    if isinstance(found, list) and len(found) <= schema.get("maxItems", len(found)):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, found, schema)


_Validator = extend(Draft202012Validator, {"uniqueItems": _unique, "items": _items})


def _hold_depth(document: object) -> None:
    """Level by level, for recursion has an end itself.

    :raises NotJson: where it is nested deeper than any schema has it
    """
    level = [document]
    for _ in range(DEPTH_MOST):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise NotJson(f"it is nested deeper than {DEPTH_MOST}")


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
    return text.lower() if schema == UUID else text  # as it is kept


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJson("a name is there twice")
    return found


def _short(text: str) -> str:
    shown = "".join(sign if sign.isprintable() else "?" for sign in text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
