"""A strict reader for JSON that a guest wrote: wrong types and absurd values are errors that say where they are.

A path names members by dots, ``limits.order``; the empty path is the value itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from memhint.guest.errors import GuestAnswerMalformed

T = TypeVar("T")


def integer(value: object, path: str = "", *, minimum: int, maximum: int) -> int:
    """The integer at the path, both limits included. A boolean or a float is not an integer.

    :raises GuestAnswerMalformed: it is absent, of another type or out of range
    """
    found = _at(value, path)
    if not isinstance(found, int) or isinstance(found, bool):
        raise GuestAnswerMalformed(f"an integer was expected, not {_kind(found)}", path)
    if not minimum <= found <= maximum:
        raise GuestAnswerMalformed(f"outside {minimum} to {maximum}", path)
    return found


def number(value: object, path: str = "", *, minimum: float, maximum: float) -> float:
    """The number at the path, whole or not, both limits included. A boolean is no number.

    :raises GuestAnswerMalformed: it is absent, of another type or out of range
    """
    found = _at(value, path)
    if not isinstance(found, (int, float)) or isinstance(found, bool):
        raise GuestAnswerMalformed(f"a number was expected, not {_kind(found)}", path)
    if not minimum <= found <= maximum:
        raise GuestAnswerMalformed(f"outside {minimum:g} to {maximum:g}", path)
    return float(found)


def text(value: object, path: str = "", *, max_len: int) -> str:
    """The printable string at the path, of at most ``max_len`` characters.

    :raises GuestAnswerMalformed: it is absent, of another type, too long or not printable
    """
    found = _at(value, path)
    if not isinstance(found, str):
        raise GuestAnswerMalformed(f"a string was expected, not {_kind(found)}", path)
    if len(found) > max_len:
        raise GuestAnswerMalformed(f"longer than {max_len} characters", path)
    if not found.isprintable():
        raise GuestAnswerMalformed("not printable", path)
    return found


def boolean(value: object, path: str = "") -> bool:
    """The boolean at the path; 0 and 1 are not booleans.

    :raises GuestAnswerMalformed: it is absent or of another type
    """
    found = _at(value, path)
    if not isinstance(found, bool):
        raise GuestAnswerMalformed(f"a boolean was expected, not {_kind(found)}", path)
    return found


def list_of(value: object, path: str, read: Callable[[object], T], *, max_items: int) -> tuple[T, ...]:
    """Every item of the list at the path as ``read`` understands it.

    :raises GuestAnswerMalformed: it is absent, not a list or too long; what ``read`` raises, with the item's path
    """
    found = _at(value, path)
    if not isinstance(found, list):
        raise GuestAnswerMalformed(f"a list was expected, not {_kind(found)}", path)
    if len(found) > max_items:
        raise GuestAnswerMalformed(f"more than {max_items} items", path)
    items = []
    for index, item in enumerate(found):
        try:
            items.append(read(item))
        except GuestAnswerMalformed as error:
            inner = f".{error.path}" if error.path else ""
            raise GuestAnswerMalformed(error.problem, f"{path}[{index}]{inner}") from None
    return tuple(items)


def has(value: object, path: str) -> bool:
    """Whether there is anything at the path."""
    try:
        _at(value, path)
    except GuestAnswerMalformed:
        return False
    return True


def _at(value: object, path: str) -> object:
    walked: list[str] = []
    for key in path.split(".") if path else ():
        if not isinstance(value, dict):
            raise GuestAnswerMalformed(f"an object was expected, not {_kind(value)}", ".".join(walked))
        walked.append(key)
        if key not in value:
            raise GuestAnswerMalformed("missing", ".".join(walked))
        value = value[key]
    return value


def _kind(value: object) -> str:
    """The JSON type, never the value: it may be a megabyte."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")
