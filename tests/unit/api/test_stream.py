from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from memhint.api import stream
from memhint.api.handlers.stream import looker
from memhint.api.stream import Change, Crowded, Hub, Messages
from memhint.client import sse
from memhint.store.clock import database_clock
from memhint.store.errors import ChangesExpired, StoreError
from memhint.store.fleet import State
from tests.unit import builders
from tests.unit.api.site import FLEET, Site
from tests.waiting import until


class Looks:
    """Looks that tell what a test puts into them."""

    def __init__(self) -> None:
        self.number = 0
        self.changed: list[str] = []
        self.error: Exception | None = None
        self.asked: list[str | None] = []

    def __call__(self, since: str | None) -> Change:
        self.asked.append(since)
        if self.error is not None and since is not None:
            raise self.error
        if since is None:
            return Change(str(self.number), (), ())
        names, self.changed = self.changed, []
        self.number += len(names)
        return Change(str(self.number), tuple({"name": name} for name in names), ())


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def hub(looks: Looks) -> Iterator[Hub]:
    made = Hub(looks, 2, every=0.01)
    yield made
    made.close()


def names(message: bytes) -> list[str]:
    data = next(line for line in message.decode().splitlines() if line.startswith("data: "))
    return [one["name"] for one in json.loads(data.removeprefix("data: "))["hosts"]]


def states(message: bytes) -> set[str]:
    data = next(line for line in message.decode().splitlines() if line.startswith("data: "))
    return {one["state"] for one in json.loads(data.removeprefix("data: "))["hosts"]}


def test_everybody_who_listens_is_told_and_one_thread_looks(hub: Hub, looks: Looks) -> None:
    before = set(threading.enumerate())  # one of a hub before may be about to end
    listeners = [hub.join(None).messages() for _ in range(2)]
    for one in listeners:
        assert next(one).startswith(b"retry: ")
        assert next(one) == b"id: 0\n\n"
    looks.changed = ["a", "b"]
    for one in listeners:
        message = next(one)
        assert message.startswith(b"id: 2\nevent: hosts\n")
        assert names(message) == ["a", "b"]
    assert sum(thread.name == "stream" for thread in set(threading.enumerate()) - before) == 1


def test_what_was_missed_is_told_first(looks: Looks) -> None:
    hub = Hub(looks, 2, every=60.0)
    looks.changed = ["a"]
    messages = hub.join("0").messages()
    hub.close()
    next(messages)
    assert names(next(messages)) == ["a"]


def of_log(log: Sequence[int], token: str | None) -> Change:
    """A look at a log of numbers."""
    begin = len(log) if token is None else int(token)
    found = log[begin : begin + stream.EVENTS_MOST]
    return Change(str(begin + len(found)), (), (), tuple({"number": one} for one in found))


def numbers(message: bytes) -> list[int]:
    data = (line.removeprefix("data: ") for line in message.decode().splitlines() if line.startswith("data: "))
    return [json.loads(one)["number"] for one in data]


def test_all_that_was_missed_is_told_though_one_look_does_not_find_it() -> None:
    log = range(2 * stream.EVENTS_MOST + 50)
    hub = Hub(lambda token: of_log(log, token), 2, every=0.01)
    try:
        hub.join(None)  # whose thread is at the end of the log
        messages = hub.join("0").messages()
        next(messages)
        missed = next(messages)
    finally:
        hub.close()
    assert numbers(missed) == list(log)
    assert missed.decode().rstrip().split("\n\n")[-1] == f"id: {len(log)}"


def test_a_connection_that_breaks_at_any_moment_loses_nothing() -> None:
    every = {"a", "b", *range(2 * stream.EVENTS_MOST)}

    def look(token: str | None) -> Change:
        if token is None:
            return Change("0", (), ())
        begin = int(token)
        found = range(begin, min(begin + stream.EVENTS_MOST, 2 * stream.EVENTS_MOST))
        hosts = ({"name": "a"},) if not begin else ()
        return Change(str(found.stop), hosts, ("b",) if not begin else (), tuple({"number": one} for one in found))

    def told(whole: bytes) -> tuple[set[object], str]:
        """What a client knows, and where it goes on from."""
        known: set[object] = set()
        last = "0"
        for one in sse.messages([whole]):
            last = one.id or last
            if one.kind == "hosts":
                data = json.loads(one.data)
                known |= {*(host["name"] for host in data["hosts"]), *data["deleted"]}
            elif one.kind == "event":
                known.add(json.loads(one.data)["number"])
        return known, last

    hub = Hub(look, 9, every=60.0)

    def missed(since: str) -> bytes:
        messages = hub.join(since).messages()
        next(messages)
        found = next(messages)
        messages.close()
        return found

    try:
        whole = missed("0")
        assert told(whole) == (every, str(2 * stream.EVENTS_MOST))
        parts = whole.split(b"\n\n")
        for kept in (0, 1, 2, stream.EVENTS_MOST, stream.EVENTS_MOST + 1, stream.EVENTS_MOST + 2, len(parts) - 2):
            known, last = told(b"".join(part + b"\n\n" for part in parts[:kept]))
            assert known | told(missed(last))[0] == every
    finally:
        hub.close()


class Logged:
    """Looks at a log of numbers. What a test puts into ``before`` or ``after`` happens once, at the next look of the
    thread that looks for all, or of one who joins: before it reads the log, or between its reading and its answer.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.before: dict[str, Callable[[], object]] = {}
        self.after: dict[str, Callable[[], object]] = {}
        self.expired = False

    def __call__(self, token: str | None) -> Change:
        who = "thread" if threading.current_thread().name == "stream" else "joiner"
        asks = token is not None  # the moment to begin with is no look at changes
        if asks:
            self.before.pop(who, int)()
        if asks and self.expired and who == "thread":
            self.expired = False
            raise ChangesExpired("too old")
        found = of_log(self.numbers, token)
        if asks:
            self.after.pop(who, int)()
        return found


def told(messages: Iterator[bytes], many: int) -> list[int]:
    """The first so many numbers of a stream; fewer where it is silent or ends."""
    found: list[int] = []
    while len(found) < many:
        message = next(messages, b"")
        if not message or message.startswith(b":"):
            break
        found += numbers(message)
    return found


@pytest.fixture
def log() -> Logged:
    return Logged()


@pytest.fixture
def fast(log: Logged) -> Iterator[Hub]:
    made = Hub(log, 2, every=0.01)
    yield made
    made.close()


def follow(hub: Hub, since: int = 0) -> Messages:
    return hub.join(str(since)).messages(keep_alive=5.0)


def test_who_joins_while_the_others_are_looked_for_misses_nothing(fast: Hub, log: Logged) -> None:
    joined: list[Messages] = []

    def join() -> None:
        joined.append(follow(fast))
        log.numbers.append(1)

    first = follow(fast)
    log.before["thread"] = join
    assert told(first, 1) == [1]
    assert told(joined[0], 1) == [1]


def test_the_first_look_is_before_all_that_others_have_looked_at(fast: Hub, log: Logged) -> None:
    others: list[Messages] = []

    def overtake() -> None:
        log.numbers.append(1)
        others.append(follow(fast))

    log.after["joiner"] = overtake
    early = follow(fast)
    assert told(early, 1) == [1]
    assert told(others[0], 1) == [1]


def test_what_was_missed_comes_before_what_is_told_meanwhile(fast: Hub, log: Logged) -> None:
    first = follow(fast)

    def happen() -> None:
        for number in (2, 3):  # when the second has come to one, the first has to all
            log.numbers.append(number)
            assert told(first, 1) == [number]

    log.numbers.append(1)
    assert told(first, 1) == [1]
    log.after["joiner"] = happen
    assert told(follow(fast), 2) == [1, 2]


def test_what_the_last_look_at_what_was_missed_has_found_is_not_told_again_as_it_was(fast: Hub, log: Logged) -> None:
    many = stream.EVENTS_MOST
    log.numbers += range(many)
    first = follow(fast, many)

    def happen() -> None:
        for number in (many, many + 1):
            log.numbers.append(number)
            assert told(first, 1) == [number]

    log.after["joiner"] = happen  # at the first look, which finds as many as one can
    late = follow(fast)
    log.numbers.append(many + 2)
    found = told(late, many + 3)
    assert found[: many + 2] == list(range(many + 2))
    assert found.count(many) == 1


def test_who_joins_as_changes_can_no_longer_be_told_begins_anew_too(fast: Hub, log: Logged) -> None:
    joined: list[Messages] = []

    def join() -> None:
        joined.append(follow(fast))
        log.expired = True

    first = follow(fast)
    log.before["thread"] = join
    assert told(first, 1) == []
    assert next(first, None) is None  # it has ended, and is not silent
    assert told(joined[0], 1) == []
    assert next(joined[0], None) is None


def test_who_missed_more_than_is_told_at_once_begins_anew() -> None:
    log = range(stream.LOOKS_MOST * stream.EVENTS_MOST)
    hub = Hub(lambda token: of_log(log, token), 2, every=0.01)
    with pytest.raises(ChangesExpired):
        hub.join("0")
    assert len(hub) == 0
    hub.join("1")
    hub.close()


def test_more_than_may_are_turned_away_until_one_leaves(hub: Hub) -> None:
    first, _ = hub.join(None).messages(), hub.join(None)
    with pytest.raises(Crowded):
        hub.join(None)
    next(first)
    first.close()  # as a server does when its client has gone
    second = hub.join(None).messages()
    second.close()  # also before anything was sent
    hub.join(None)


def test_nobody_looks_where_nobody_listens(hub: Hub, looks: Looks) -> None:
    assert looks.asked == []
    listener = hub.join(None)
    until(lambda: len(looks.asked) > 2)
    hub.leave(listener)
    until(lambda: not any(thread.name == "stream" for thread in threading.enumerate()))
    hub.join(None)
    before = len(looks.asked)
    until(lambda: len(looks.asked) > before)


def test_who_does_not_keep_up_is_dropped_and_the_others_are_not(hub: Hub, looks: Looks) -> None:
    slow, fast = hub.join(None), hub.join(None).messages()
    next(fast)
    next(fast)
    for number in range(stream.WAITING_MOST + 1):
        looks.changed = [str(number)]
        assert names(next(fast)) == [str(number)]
    until(lambda: slow._ended)
    assert list(slow.messages()) == [b"retry: 3000\n\n"]


def test_silence_is_filled_with_comments(hub: Hub) -> None:
    messages = hub.join(None).messages(keep_alive=0.01)
    next(messages)
    next(messages)
    assert next(messages) == b": still here\n\n"


def test_a_store_that_is_away_ends_nothing(hub: Hub, looks: Looks, caplog: pytest.LogCaptureFixture) -> None:
    messages = hub.join(None).messages()
    next(messages)
    next(messages)
    looks.error = StoreError("gone")
    asked = len(looks.asked)
    until(lambda: len(looks.asked) > asked + 3)
    assert len([one for one in caplog.records if "gone" in one.getMessage()]) == 1
    looks.error, looks.changed = None, ["a"]
    assert names(next(messages)) == ["a"]


def test_when_changes_can_no_longer_be_told_everybody_begins_anew(hub: Hub, looks: Looks) -> None:
    messages = hub.join(None).messages()
    next(messages)
    next(messages)
    looks.error = ChangesExpired("too old")
    assert list(messages) == []
    with pytest.raises(ChangesExpired):
        hub.join("0")
    assert len(hub) == 0


def test_a_fault_in_a_look_ends_the_streams_and_not_for_ever(
    hub: Hub, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    messages = hub.join(None).messages()
    next(messages)
    next(messages)
    looks.error = RuntimeError("a fault")
    assert list(messages) == []
    looks.error = None
    again = hub.join(None).messages()
    next(again)
    next(again)
    looks.changed = ["a"]
    assert names(next(again)) == ["a"]


def test_closing_ends_every_stream(hub: Hub) -> None:
    messages = hub.join(None).messages()
    hub.close()
    assert len(list(messages)) == 2
    with pytest.raises(Crowded):
        hub.join(None)


def test_hosts_and_events_of_the_store_come_with_an_id_to_begin_with_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.application.parts.hub, "_every", 0.01)
    token = site.get("/v1/hosts").get_json()["changed"]
    answer = site.get("/v1/stream", headers={"Last-Event-ID": token}, buffered=False)
    assert answer.mimetype == "text/event-stream"
    messages = answer.iter_encoded()
    next(messages)
    first = next(messages).decode().split("\n")[0].removeprefix("id: ")
    site.store.fleet.take([State(builders.report(host="new", epoch="001700000000000-0000000a", at=time.time()), 1.0)])
    found = b""
    while b"event: event" not in found:
        found += next(messages)
    answer.close()
    parts = [part for part in found.decode().split("\n\n") if "event: " in part]
    kinds = [re.search("^event: (.+)$", part, re.MULTILINE) for part in parts]
    assert [kind and kind[1] for kind in kinds] == ["hosts", "event"]
    assert '"kind":"appeared"' in parts[1]
    again = site.get(f"/v1/stream?since={first}", buffered=False)
    messages = again.iter_encoded()
    next(messages)
    assert b'"kind":"appeared"' in next(messages)
    again.close()


def test_a_host_that_nobody_calls_silent_is_told_as_it_grows_stale(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.application.parts.hub, "_every", 0.01)
    ahead = 0.0
    monkeypatch.setattr(site.store.hosts_view, "_clock", lambda connection: database_clock(connection) + ahead)
    listed = site.get("/v1/hosts").get_json()
    fresh = [one["name"] for one in listed["hosts"] if one["state"] == "fresh"]
    answer = site.get("/v1/stream", headers={"Last-Event-ID": listed["changed"]}, buffered=False)
    messages = answer.iter_encoded()
    next(messages)
    assert b"event: hosts" not in next(messages)
    ahead = 3 * FLEET.shape.period + 60.0
    told = next(messages)
    answer.close()
    assert names(told) == fresh
    assert states(told) == {"stale"}
    last = told.decode().split("\n")[0].removeprefix("id: ")

    for since, expected in ((listed["changed"], fresh), (last, None)):
        answer = site.get(f"/v1/stream?since={since}", buffered=False)
        messages = answer.iter_encoded()
        next(messages)
        found = next(messages)
        answer.close()
        assert (names(found) if b"event: hosts" in found else None) == expected


def test_an_id_of_a_clock_that_was_ahead_hides_no_host(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = 3 * FLEET.shape.period + 60.0
    monkeypatch.setattr(site.store.hosts_view, "_clock", lambda connection: database_clock(connection) + ahead)
    look = looker(site.store, site.application.parts.log)
    now = look(None)
    assert now.hosts == ()
    token, levers, of_hosts, moment = now.token.split("-")
    later = look(f"{token}-{levers}-{of_hosts}-{int(moment) + 86_400_000}")
    assert {one["state"] for one in later.hosts} == {"stale"}
    assert later.token.split("-")[:3] == [token, levers, of_hosts]
    assert look(later.token).hosts == ()


def test_an_id_that_is_too_old_is_told_so(site: Site) -> None:
    assert site.get("/v1/stream", headers={"Last-Event-ID": "1"}).status_code == 410
    assert site.get("/v1/stream", headers={"Last-Event-ID": "x"}).status_code == 400


def test_streams_are_bounded(make_site: Callable[..., Site]) -> None:
    site = make_site(streams="1")
    first = site.get("/v1/stream", buffered=False)
    answer = site.get("/v1/stream")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert answer.get_json()["errors"][0]["code"] == "memhint.stream.crowded"
    first.close()
    for method in ("HEAD", "GET", "GET"):
        answer = site.ask(method, "/v1/stream", buffered=False)
        assert answer.status_code == 200
        answer.close()
