from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from memhint.bus import envelope
from memhint.bus.envelope import ZSTD, Envelope, MessageKind, decode, encode
from memhint.bus.errors import Poison
from memhint.bus.rabbit_publisher import _AT_ONCE as AT_ONCE
from memhint.bus.record import Record
from memhint.objects.event import Event
from memhint.objects.history import point_of
from memhint.objects.reclaim import Reclaim
from tests.unit import builders
from tests.unit.builders import NOW

STATE = Envelope(MessageKind.STATE, "host-a", "epoch-1", 7, 12.5, builders.report())


def record(host: str = "host-a") -> Envelope:
    state = builders.lever_state()
    event = Event(NOW, host, state.subject, state.lever, state.desired, state.verdict)
    return Envelope(
        MessageKind.RECORD, "host-a", "epoch-1", 7, 12.5, Record((point_of(builders.report()),), (event,), 3)
    )


@pytest.mark.parametrize("sent", [STATE, record()], ids=["state", "record"])
def test_a_message_comes_back_as_it_was(sent: Envelope) -> None:
    assert decode(*encode(sent)) == sent


def test_a_report_is_compressed_and_a_short_message_is_not() -> None:
    body, encoding = encode(STATE)
    assert encoding == ZSTD
    assert len(body) * 4 < len(zstandard.ZstdDecompressor().decompress(body))
    assert envelope.pack("{}") == (b"{}", None)


def test_what_is_long_and_cannot_be_made_smaller_stays_as_it_is() -> None:
    noise = "".join(chr(33 + number * 7919 % 90) for number in range(600))
    assert envelope.pack(noise)[0] in (noise.encode(), zstandard.ZstdCompressor(level=3).compress(noise.encode()))


def test_a_small_message_that_unpacks_to_a_huge_one_is_refused() -> None:
    bomb = zstandard.ZstdCompressor().compress(b" " * 2**28)
    assert len(bomb) < 2**17
    with pytest.raises(Poison, match="longer than"):
        decode(bomb, ZSTD)


def changed(sent: Envelope, **changes: object) -> bytes:
    document = envelope.unpack(*encode(sent))
    return json.dumps({**document, **changes}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"memhint": 2},
        {"kind": "state "},
        {"kind": None},
        {"host": ""},
        {"host": "host-b"},
        {"epoch": "epoch-2"},
        {"sequence": 8},
        {"sequence": True},
        {"sequence": -1},
        {"sequence": 2**60},
        {"clock": "now"},
        {"body": None},
        {"body": []},
    ],
)
def test_a_message_that_is_not_exactly_one_is_poison(changes: dict[str, object]) -> None:
    with pytest.raises(Poison):
        decode(changed(STATE, **changes), None)


def test_events_of_another_host_are_poison() -> None:
    with pytest.raises(Poison, match="different hosts"):
        decode(*encode(record("host-b")))


@pytest.mark.parametrize(
    ("before", "number"),
    [
        (f'"at": {NOW}', "1e999"),
        (f'"at": {NOW}', "NaN"),
        ('"page_size": 4096', str(2**63)),
        ('"page_size": 4096', "4e3"),
    ],
)
def test_a_number_that_no_database_keeps_is_poison(before: str, number: str) -> None:
    body = changed(STATE).decode().replace(before, before.split(":")[0] + f": {number}")
    assert number in body
    with pytest.raises(Poison):
        decode(body.encode(), None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("headroom", 2**62), ("available", -(2**62)), ("footprint", 2**60), ("resident", -1), ("at", 1e300)],
)
def test_a_point_with_which_sums_over_a_fleet_would_leave_64_bits_is_poison(name: str, value: float) -> None:
    body = envelope.unpack(*encode(record()))["body"]
    body["points"][0][name] = value
    with pytest.raises(Poison):
        decode(changed(record(), body=body), None)


@pytest.mark.parametrize("what", ["events", "reclaims"])
def test_what_happened_at_no_moment_of_the_calendar_is_poison(what: str) -> None:
    sent = replace(record(), body=replace(record().body, reclaims=(Reclaim(builders.reclaim_request(), begun=NOW),)))
    body = envelope.unpack(*encode(sent))["body"]
    assert decode(changed(sent, body=body), None) == sent
    body[what][0]["at" if what == "events" else "begun"] = 1e300
    with pytest.raises(Poison):
        decode(changed(sent, body=body), None)


@given(body=st.binary(max_size=200), encoding=st.sampled_from([None, ZSTD, "gzip"]))
def test_any_bytes_are_poison(body: bytes, encoding: str | None) -> None:
    with pytest.raises(Poison):
        decode(body, encoding)


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_any_byte_that_changed_is_poison_or_a_whole_message(at: int, byte: int) -> None:
    body, encoding = encode(STATE)
    spoiled = bytearray(body)
    spoiled[at % len(spoiled)] = byte
    with contextlib.suppress(Poison):
        assert isinstance(decode(bytes(spoiled), encoding), Envelope)


def test_a_record_of_more_than_any_agent_sends_is_refused() -> None:
    (point,) = record().body.points
    events = tuple(replace(one, at=NOW) for one in record().body.events)
    full = Record((point,) * (envelope.MOST - 2), events, 0, (Reclaim(builders.reclaim_request()),))
    sent = replace(record(), body=full)
    assert decode(*encode(sent)) == sent
    more = replace(full, points=(*full.points, point))
    with pytest.raises(Poison, match=f"{envelope.MOST + 1} points, events and requests"):
        decode(*encode(replace(sent, body=more)))


def test_the_name_of_a_spool_is_as_short_as_an_agent_makes_it() -> None:
    sent = replace(record(), body=replace(record().body, spool="a" * 64))
    assert decode(*encode(sent)) == sent
    with pytest.raises(Poison, match="spool"):
        decode(*encode(replace(sent, body=replace(sent.body, spool="a" * 65))))


@pytest.mark.parametrize("span", [7, 300, 3600, 2**31 - 1])
def test_points_that_no_agent_makes_are_poison(span: int) -> None:
    sent = record()
    body = replace(sent.body, points=tuple(replace(one, span=span) for one in sent.body.points))
    with pytest.raises(Poison, match="not of single cycles"):
        decode(*encode(replace(sent, body=body)))


def test_an_agents_largest_record_is_far_from_what_is_refused() -> None:
    assert envelope.MOST >= 10 * AT_ONCE
