"""Numbers and words out of kernel text, strictly: what does not parse is malformed, what is not there is missing.

Only the fields that are asked for are parsed, so a line that a newer kernel adds can never break a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing
from memhint.objects.units import KIB

_U64_DIGITS = 20
_MOST_LISTED = 1 << 16
_CHOSEN = re.compile(r"\[([^\[\]\s]+)\]")


def number(text: str, path: str) -> int:
    """An unsigned decimal.

    :raises InterfaceMalformed: on anything else; int() alone would take signs, underscores and other scripts' digits
    """
    if len(text) <= _U64_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    raise InterfaceMalformed(path, f"{text[:40]!r} is not a number")


def listed(text: str, path: str) -> Iterator[int]:
    """The numbers of a list such as ``0-3,8``, of processors or nodes; an empty one has none.

    :raises InterfaceMalformed: while iterating, when it is no such list
    """
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        begin, end = number(first, path), number(last or first, path)
        if end >= _MOST_LISTED:
            raise InterfaceMalformed(path, f"{text[:80]!r} is no list of processors or nodes")
        yield from range(begin, end + 1)


def signed_number(text: str, path: str) -> int:
    """A decimal that may be negative.

    :raises InterfaceMalformed: on anything else
    """
    return -number(text[1:], path) if text.startswith("-") else number(text, path)


def page_counter(text: str, path: str) -> int | None:
    """Pages of a KSM counter, None when it ran below zero.

    Kernels before 6.10 decrement ksm_zero_pages without a lock and can show -1, or that number wrapped.

    :raises InterfaceMalformed: when it is no number at all
    """
    value = signed_number(text, path)
    return value if 0 <= value < 1 << 63 else None


def chosen_word(text: str, path: str) -> str:
    """The bracketed word of a sysfs choice such as ``always [madvise] never``.

    :raises InterfaceMalformed: when not exactly one word is bracketed
    """
    words = _CHOSEN.findall(text)
    if len(words) != 1:
        raise InterfaceMalformed(path, f"{text[:80]!r} has {len(words)} chosen words")
    return str(words[0])


@dataclass(frozen=True, slots=True)
class Fields:
    """The named values of one file, as text; ``path`` is for the errors."""

    path: str
    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """The value as it stands.

        :raises InterfaceMissing: when the file has no such field
        """
        try:
            return self.values[name]
        except KeyError:
            raise InterfaceMissing(self.path, f"no {name}") from None

    def number(self, name: str) -> int:
        """An unsigned value.

        :raises InterfaceMissing: when the file has no such field
        :raises InterfaceMalformed: when it is not a number
        """
        return number(self.text(name), self.path)

    def kib(self, name: str) -> int:
        """Bytes of a value that is printed in kB.

        :raises InterfaceMissing: when the file has no such field
        :raises InterfaceMalformed: when it is not a number of kB
        """
        value, _, unit = self.text(name).partition(" ")
        if unit != "kB":
            raise InterfaceMalformed(self.path, f"{name} is {self.text(name)[:40]!r}, not in kB")
        return number(value, self.path) * KIB


def columns(text: str, path: str) -> Fields:
    """The fields of ``name value`` lines.

    :raises InterfaceMalformed: when the text is empty
    """
    return _fields(text, " ", path)


def colons(text: str, path: str) -> Fields:
    """The fields of ``name: value`` lines.

    :raises InterfaceMalformed: when the text is empty
    """
    return _fields(text, ":", path)


def _fields(text: str, separator: str, path: str) -> Fields:
    if not text.strip():
        raise InterfaceMalformed(path, "empty")
    values: dict[str, str] = {}
    # not splitlines(): it also breaks at characters that a name may contain
    for line in text.split("\n"):
        name, found, value = line.partition(separator)
        if found:
            values[name.strip()] = value.strip()
    return Fields(path, values)
