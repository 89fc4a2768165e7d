"""Records as JSON documents and back. A document that is not exactly a record is refused, never guessed at.

Other versions of memhint write them too: members that this one does not know stay in the document, and words that it
does not know are read as unknown.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from memhint.objects.words import other_versions

T = TypeVar("T")
_LIMIT = 2**63  # no database keeps larger numbers
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * 19  # what has no such digits has no such number
_ENCODER = msgspec.json.Encoder()
_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {}


class RecordDamaged(ValueError):
    """A document that is not exactly a record."""


def to_plain(record: object) -> Any:
    """Any record of memhint as dictionaries, lists, texts and numbers, under its own field names."""
    return msgspec.to_builtins(record, str_keys=True)


def dump(record: object) -> str:
    """A record as JSON."""
    return _ENCODER.encode(record).decode()


def parse_as(document: str | bytes, kind: type[T]) -> T:
    """The record of a document.

    :raises RecordDamaged: when it is not exactly one of this kind
    """
    try:
        text = document.encode() if isinstance(document, str) else document
        if _LONG in text.translate(_DIGITS):
            _check_numbers(msgspec.json.decode(text))
        with other_versions():
            return _decoder(kind).decode(text)
    except (ValueError, RecursionError) as error:
        raise RecordDamaged(str(error)) from error


def structure(plain: object, kind: type[T]) -> T:
    """The record of dictionaries, lists, texts and numbers.

    :raises RecordDamaged: when they are not exactly one of this kind
    """
    try:
        _check_numbers(plain)
        return msgspec.convert(plain, kind)
    except (ValueError, RecursionError) as error:
        raise RecordDamaged(f"no {kind.__name__}: {error}") from error


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    made = _DECODERS.get(kind)
    if made is None:
        made = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return made


def _check_numbers(plain: object) -> None:
    if isinstance(plain, dict):
        for value in plain.values():
            _check_numbers(value)
    elif isinstance(plain, list):
        for value in plain:
            _check_numbers(value)
    elif isinstance(plain, int) and not -_LIMIT <= plain < _LIMIT:
        raise ValueError("expected a number of 64 bits")
