"""Server-sent events: bytes in, messages out, as the HTML standard has them. No I/O."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LARGEST = 64 << 20  # characters of one message; thousands of hosts are a tenth of it


class TooLong(Exception):
    """A message that does not end."""


@dataclass(frozen=True, slots=True)
class Message:
    """``id`` is the newest one the stream has named, None where it has not. Without a kind there is only the id."""

    id: str | None
    kind: str = ""
    data: str = ""


def messages(pieces: Iterable[bytes]) -> Iterator[Message]:
    """Each message once its empty line has come.

    :raises TooLong: when one does not end
    """
    last: str | None = None
    kind, named, size = "", False, 0
    data: list[str] = []
    for line in _lines(pieces):
        size += len(line)
        if size > LARGEST:
            raise TooLong(f"more than {LARGEST >> 20} MiB in one message of the stream")
        if not line:
            if data or named:
                yield Message(last, kind or "message", "\n".join(data)) if data else Message(last)
            kind, data, named, size = "", [], False, 0
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id" and "\0" not in value:
            last, named = value, True
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines, each of which may end in CR LF, LF or CR."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    waiting: list[str] = []
    size = 0
    after_return = False
    for piece in pieces:
        text = decoder.decode(piece)
        if text and after_return:  # the line has ended already, at its CR
            text, after_return = text.removeprefix("\n"), False
        if not text:
            continue
        after_return = text.endswith("\r")
        parts = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        waiting.append(parts[0])
        size += len(parts[0])
        if size > LARGEST:
            raise TooLong(f"more than {LARGEST >> 20} MiB in one line of the stream")
        if len(parts) > 1:
            yield "".join(waiting)
            yield from parts[1:-1]
            waiting, size = [parts[-1]], len(parts[-1])
