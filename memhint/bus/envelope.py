"""A message on the wire: versioned JSON, with zstd where it pays, and read as the untrusted text that it is."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
import zstandard

from memhint.bus.errors import Poison, TooLong
from memhint.bus.record import Record
from memhint.objects import codec
from memhint.objects.codec import RecordDamaged
from memhint.objects.reclaim import ReclaimError
from memhint.objects.report import Report, ReportError, check_report

T = TypeVar("T")

VERSION = 1
JSON = "application/json"
ZSTD = "zstd"
_WINDOW = 2**23  # bytes that unpacking may keep in memory: what compressing at our level needs, and more
_PAYS = 512  # bytes below which compressing is not tried
_LEVEL = 3
LARGEST = 4 * 2**20  # bytes of a message's text, packed or not: a report has 2.8 KiB for each VM, so 1.3 MiB for 500
MOST = 5000  # points, events and requests in one record: ten times what an agent of any version sends
_MARK = 64  # letters of a spool's name, at most


class MessageKind(StrEnum):
    """What a message of an agent is. Also its routing key."""

    STATE = "state"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message of an agent. ``clock`` is seconds of the agent's life on a monotonic clock.

    ``came`` is seconds of the receiver's monotonic clock.
    """

    kind: MessageKind
    host: str
    epoch: str
    sequence: int
    clock: float
    body: Report | Record
    text: str | None = field(default=None, compare=False)  # of the body, where it came as one
    came: float | None = field(default=None, compare=False)


def encode(envelope: Envelope) -> tuple[bytes, str | None]:
    """The message's body, and its content encoding."""
    return pack(text_of(envelope))


def text_of(envelope: Envelope) -> str:
    """The message as JSON."""
    head = {
        "memhint": VERSION,
        "kind": str(envelope.kind),
        "host": envelope.host,
        "epoch": envelope.epoch,
        "sequence": envelope.sequence,
        "clock": envelope.clock,
    }
    return f'{json.dumps(head)[:-1]}, "body":{codec.dump(envelope.body)}}}'


def decode(body: bytes, encoding: str | None) -> Envelope:
    """The message of these bytes.

    :raises Poison: when it is not exactly one
    """
    return decode_text(expand(body, encoding))


def expand(body: bytes, encoding: str | None) -> bytes:
    """The text of a message, no longer than ``LARGEST``.

    :raises Poison: when it is longer, or cannot be unpacked
    """
    if encoding not in (None, ZSTD):
        raise Poison(f"its content encoding {encoding[:40]!r} is unknown")
    try:
        if encoding == ZSTD and len(body) <= LARGEST:
            # A frame says how long it is; that is no reason to believe it. No more is unpacked than is taken.
            with zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(io.BytesIO(body)) as reader:
                body = reader.read(LARGEST + 1)
    except zstandard.ZstdError as error:
        raise Poison(f"it cannot be unpacked: {error}") from error
    if len(body) > LARGEST:
        raise TooLong(f"it is longer than {LARGEST} bytes")
    return body


def decode_text(plain: bytes) -> Envelope:
    """The message of this text.

    :raises Poison: when it is not exactly one
    """
    head = _read(plain, _Head)
    if head.memhint != VERSION:
        raise Poison(_OTHER_VERSION)
    for name in ("host", "epoch"):
        if not 0 < len(getattr(head, name)) <= 255:
            raise Poison(f"its {name} is missing or too long")
    for name in ("sequence", "clock"):
        if not 0 <= getattr(head, name) < 2**53:
            raise Poison(f"its {name} is out of range")
    text = bytes(head.body)
    try:
        content: Report | Record
        content = codec.parse_as(text, Report) if head.kind is MessageKind.STATE else codec.parse_as(text, Record)
        for one in content.reclaims if isinstance(content, Record) else ():
            one.request.check()
    except (RecordDamaged, ReclaimError) as error:
        raise Poison(f"its content cannot be read: {error}") from error
    if isinstance(content, Record):
        many = len(content.points) + len(content.events) + len(content.reclaims)
        if many > MOST:
            raise Poison(f"its {many} points, events and requests are more than {MOST}")
        if len(content.spool) > _MARK:
            raise Poison("the name of its spool is too long")
        if any(one.span for one in content.points):
            raise Poison("its points are not of single cycles: only a store makes others of them")
    envelope = Envelope(head.kind, head.host, head.epoch, head.sequence, head.clock, content, text.decode())
    hosts = {content.host} if isinstance(content, Report) else {one.host for one in content.events}
    same_cycle = isinstance(content, Record) or (content.epoch, content.sequence) == (envelope.epoch, envelope.sequence)
    if not hosts <= {envelope.host} or not same_cycle:
        raise Poison("its head and its content are of different hosts or cycles")
    if isinstance(content, Report):
        try:
            check_report(content)
        except ReportError as error:
            raise Poison(f"its content makes no sense: {error}") from error
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
    read = _read(expand(body, encoding), dict[str, Any])
    if read.get("memhint") != VERSION:
        raise Poison(_OTHER_VERSION)
    return read


_OTHER_VERSION = "it is no message of this version of memhint"


class _Head(msgspec.Struct):
    memhint: int
    kind: MessageKind
    host: str
    epoch: str
    sequence: int
    clock: float
    body: msgspec.Raw


def _read(plain: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(plain, type=kind)
    except (ValueError, RecursionError) as error:
        raise Poison(f"it cannot be read: {error}") from error
