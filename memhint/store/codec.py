"""Records as the store keeps them: as JSON documents. What cannot be read is an error of the store."""

from __future__ import annotations

from typing import TypeVar

from memhint.objects import codec
from memhint.objects.codec import RecordDamaged, dump
from memhint.objects.report import Report
from memhint.store.errors import StoreDamaged

__all__ = ["dump", "parse", "parse_as", "structure"]

T = TypeVar("T")
_ADVICE = "a stored record cannot be read; it is damaged or of another version, restart the agent to write a new one"


def parse(document: str) -> Report:
    """The report of a document.

    :raises StoreDamaged: when it is none
    """
    return parse_as(document, Report)


def parse_as(document: str | bytes, kind: type[T]) -> T:
    """The record of a document.

    :raises StoreDamaged: when it is not exactly one of this kind
    """
    try:
        return codec.parse_as(document, kind)
    except RecordDamaged as error:
        raise StoreDamaged(f"{_ADVICE}: {error}") from error


def structure(plain: object, kind: type[T]) -> T:
    """The record of dictionaries, lists, texts and numbers.

    :raises StoreDamaged: when they are not exactly one of this kind
    """
    try:
        return codec.structure(plain, kind)
    except RecordDamaged as error:
        raise StoreDamaged(str(error)) from error
