"""Reports as JSON documents and back. A document that is not exactly a report is refused, never guessed at."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from cattrs import BaseValidationError, Converter, transform_error

from memhint.objects.report import Report
from memhint.store.errors import StoreDamaged

T = TypeVar("T")
_LIMIT = 2**63  # no database keeps larger numbers


def _converter() -> Converter:
    converter = Converter(unstruct_collection_overrides={tuple: list, frozenset: sorted})
    # cattrs would call int("5"), bool("no") or str(None) and be content
    for kind, structure in ((int, _whole), (float, _number), (bool, _exactly(bool)), (str, _exactly(str))):
        converter.register_structure_hook(kind, structure)
    # JSON has no keys but text
    converter.register_structure_hook_func(_is_by_number, _by_number)
    converter.register_unstructure_hook_func(_is_by_number, lambda items: {str(key): items[key] for key in items})
    return converter


def _exactly(kind: type) -> Any:
    def structure(value: object, wanted: Any) -> object:
        if wanted is not kind:
            return wanted(value)  # an enumeration of texts is a kind of text to cattrs
        if type(value) is not kind:
            raise ValueError(f"expected {kind.__name__}, found {type(value).__name__}")
        return value

    return structure


def _whole(value: object, wanted: Any) -> Any:
    number = _exactly(int)(value, wanted)
    if isinstance(number, int) and not -_LIMIT <= number < _LIMIT:
        raise ValueError("expected a number of 64 bits")
    return number


def _number(value: object, _: object) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"expected a number, found {type(value).__name__}")
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):  # JSON has 1e999
        raise ValueError("expected a finite number")
    return number


def _is_by_number(kind: Any) -> bool:
    return bool(kind == Mapping[int, int])


def _by_number(items: object, _: object) -> Mapping[int, int]:
    if not isinstance(items, dict):
        raise ValueError(f"expected an object, found {type(items).__name__}")
    return {int(key): _whole(value, int) for key, value in items.items()}


_CONVERTER = _converter()


def to_plain(record: object) -> Any:
    """Any record of memhint as dictionaries, lists, texts and numbers, under its own field names."""
    return _CONVERTER.unstructure(record)


def dump(record: object) -> str:
    """A record as JSON."""
    return json.dumps(to_plain(record), separators=(",", ":"), allow_nan=False)


def parse(document: str) -> Report:
    """The report of a document.

    :raises StoreDamaged: when it is none
    """
    return parse_as(document, Report)


def parse_as(document: str, kind: type[T]) -> T:
    """The record of a document.

    :raises StoreDamaged: when it is not exactly one of this kind
    """
    try:
        return structure(json.loads(document, parse_constant=_no_constant), kind)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreDamaged(f"{_ADVICE}: {error}") from error


def structure(plain: object, kind: type[T]) -> T:
    """The record of dictionaries, lists, texts and numbers.

    :raises StoreDamaged: when they are not exactly one of this kind
    """
    try:
        return _CONVERTER.structure(plain, kind)
    except BaseValidationError as error:
        raise StoreDamaged(f"{_ADVICE}: {transform_error(error)[0]}") from error
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise StoreDamaged(f"{_ADVICE}: {error}") from error


_ADVICE = "a stored record cannot be read; it is damaged or of another version, restart the agent to write a new one"


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of a report")
