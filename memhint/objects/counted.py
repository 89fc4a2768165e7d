"""A number of things for a person: "1 hour", "2 hours"."""

from __future__ import annotations


def counted(number: int | None, thing: str, things: str | None = None) -> str:
    """So many things; where it is not known how many, a dash stands for the number.

    :param thing: the word for one of them
    :param things: the word for several, where that is not the first with an s
    """
    return f"{'-' if number is None else number} {thing if number == 1 else things or f'{thing}s'}"
