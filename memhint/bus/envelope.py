"""A message on the wire: versioned JSON, with zstd where it pays, and read as the untrusted text that it is."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import zstandard

from memhint.bus.errors import Poison
from memhint.bus.record import Record
from memhint.objects.report import Report
from memhint.store import codec
from memhint.store.errors import StoreDamaged

VERSION = 1
JSON = "application/json"
ZSTD = "zstd"
_PAYS = 512  # bytes below which compressing is not tried
_LEVEL = 3
_LARGEST = 16 * 2**20  # bytes of a message's text: a report of a thousand VMs has 3 MiB


class Kind(StrEnum):
    """What a message of an agent is. Also its routing key."""

    STATE = "state"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message of an agent. ``clock`` is seconds of the agent's life on a clock that nobody sets."""

    kind: Kind
    host: str
    epoch: str
    sequence: int
    clock: float
    body: Report | Record


def encode(envelope: Envelope) -> tuple[bytes, str | None]:
    """The message's body, and its content encoding."""
    head = {
        "memhint": VERSION,
        "kind": str(envelope.kind),
        "host": envelope.host,
        "epoch": envelope.epoch,
        "sequence": envelope.sequence,
        "clock": envelope.clock,
    }
    return pack(f'{json.dumps(head)[:-1]}, "body":{codec.dump(envelope.body)}}}')


def decode(body: bytes, encoding: str | None) -> Envelope:
    """The message of these bytes.

    :raises Poison: when it is not exactly one
    """
    read = unpack(body, encoding)
    head = {name: _field(read, name, kind) for name, kind in _HEAD.items()}
    try:
        kind = Kind(head["kind"])
        content: Report | Record = (
            codec.structure(read.get("body"), Report)
            if kind is Kind.STATE
            else codec.structure(read.get("body"), Record)
        )
    except (ValueError, StoreDamaged) as error:
        raise Poison(f"its content cannot be read: {error}") from error
    envelope = Envelope(kind, head["host"], head["epoch"], head["sequence"], float(head["clock"]), content)
    hosts = {content.host} if isinstance(content, Report) else {one.host for one in content.events}
    same_cycle = isinstance(content, Record) or (content.epoch, content.sequence) == (envelope.epoch, envelope.sequence)
    if not hosts <= {envelope.host} or not same_cycle:
        raise Poison("its head and its content are of different hosts or cycles")
    return envelope


def pack(text: str) -> tuple[bytes, str | None]:
    """A text as bytes, compressed where that makes it smaller, and its content encoding."""
    plain = text.encode()
    if len(plain) >= _PAYS:
        small = zstandard.ZstdCompressor(level=_LEVEL).compress(plain)
        if len(small) < len(plain):
            return small, ZSTD
    return plain, None


def unpack(body: bytes, encoding: str | None) -> dict[str, Any]:
    """The JSON object of a message of this version.

    :raises Poison: when it is none
    """
    if encoding not in (None, ZSTD):
        raise Poison(f"its content encoding {encoding[:40]!r} is unknown")
    try:
        if encoding == ZSTD:
            # A frame says how long it is; that is no reason to believe it.
            with zstandard.ZstdDecompressor(max_window_size=2**24).stream_reader(io.BytesIO(body)) as reader:
                body = reader.read(_LARGEST + 1)
        if len(body) > _LARGEST:
            raise Poison(f"it is longer than {_LARGEST} bytes")
        read = json.loads(body, parse_constant=_no_constant)
    except (zstandard.ZstdError, ValueError, RecursionError) as error:
        raise Poison(f"it cannot be read: {error}") from error
    if not isinstance(read, dict) or read.get("memhint") != VERSION:
        raise Poison("it is no message of this version of memhint")
    return read


_HEAD: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "host": (str,),
    "epoch": (str,),
    "sequence": (int,),
    "clock": (int, float),
}


def _field(read: dict[str, Any], name: str, kinds: tuple[type, ...]) -> Any:
    value = read.get(name)
    if type(value) not in kinds or (isinstance(value, str) and not 0 < len(value) <= 255):
        raise Poison(f"its {name} is missing or of another kind")
    if isinstance(value, (int, float)) and not 0 <= value < 2**53:
        raise Poison(f"its {name} is out of range")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")
