"""How often Keystone is asked for those whom it has not confirmed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from memhint.api.limits import AtOnce, Buckets
from memhint.api.unconfirmed import Question, Unconfirmed
from tests.unit.api.site import Site
from tests.unit.api.test_ways import KEYSTONE, token_of

STRANGER = "192.0.2.7"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Keystone:
    """What it is asked, and whom it knows."""

    def __init__(self, fixture: AuthTokenFixture) -> None:
        self.admin = token_of(fixture, "admin", project="ops")
        self.asked: list[str] = []
        self.answers = threading.Event()
        self.answers.set()
        self._known = fixture.fetch_token

    def fetch_token(self, token: str, **more: object) -> object:
        self.asked.append(token)
        if token != self.admin and not self.answers.wait(30):
            raise AssertionError("nobody ends this")
        return self._known(token, **more)


@pytest.fixture
def keystone() -> Iterator[Keystone]:
    with AuthTokenFixture() as fixture:
        found = Keystone(fixture)

        def fetch_token(_middleware: object, token: str, **more: object) -> object:
            return found.fetch_token(token, **more)

        with patch("keystonemiddleware.auth_token.AuthProtocol.fetch_token", fetch_token):
            yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def unconfirmed(clock: Clock) -> Unconfirmed:
    return Unconfirmed(Buckets(1.0, 3, clock), AtOnce(2), holds=300.0, clock=clock, most=4)


def asked(found: Question | float) -> Question:
    assert isinstance(found, Question)
    return found


def test_invented_tokens_are_asked_for_at_a_rate(unconfirmed: Unconfirmed, clock: Clock) -> None:
    for number in range(3):
        asked(unconfirmed.ask("a", f"t{number}")).end()
    assert unconfirmed.ask("a", "t3") == 1.0
    asked(unconfirmed.ask("b", "t3")).end()
    clock.now += 1.0
    asked(unconfirmed.ask("a", "t3")).end()
    assert unconfirmed.ask("a", "t4") == 1.0


def test_a_token_that_was_confirmed_is_asked_for_freely_for_a_time(unconfirmed: Unconfirmed, clock: Clock) -> None:
    asked(unconfirmed.ask("a", "good")).end(confirmed=True)
    for _ in range(20):
        asked(unconfirmed.ask("a", "good"))  # none of them keeps a turn
    for number in range(2):
        asked(unconfirmed.ask("a", f"t{number}")).end()
    assert unconfirmed.ask("a", "t3") == 1.0
    asked(unconfirmed.ask("a", "good")).end()
    clock.now += 300.0
    first = asked(unconfirmed.ask("a", "good"))
    second = asked(unconfirmed.ask("a", "good"))
    assert unconfirmed.ask("a", "good") == 1.0  # a question again, and two at once are the most
    first.end()
    second.end()


def test_only_so_many_are_asked_for_at_once(unconfirmed: Unconfirmed) -> None:
    first, second = asked(unconfirmed.ask("a", "t1")), asked(unconfirmed.ask("a", "t2"))
    assert unconfirmed.ask("a", "t3") == 1.0
    first.end()
    first.end()  # a second time is nothing
    third = asked(unconfirmed.ask("a", "t3"))
    assert unconfirmed.ask("a", "t4") == 1.0
    second.end()
    third.end()


def test_what_is_remembered_has_a_bound(unconfirmed: Unconfirmed, clock: Clock) -> None:
    for number in range(5):
        asked(unconfirmed.ask(f"c{number}", f"t{number}")).end(confirmed=True)
    for _ in range(2):
        asked(unconfirmed.ask("a", "t0"))  # forgotten, so it takes turns
    assert unconfirmed.ask("a", "t0") == 1.0
    for _ in range(10):
        asked(unconfirmed.ask("a", "t1"))


def test_a_stranger_with_invented_tokens_neither_loads_keystone_nor_keeps_out_who_is_known(
    make_site: Callable[..., Site], keystone: Keystone
) -> None:
    site = make_site(**{**KEYSTONE, "rate": "0.001", "burst": "5"})

    def status(token: str, **more: str) -> int:
        headers = {"X-Auth-Token": token, **more}
        return site.ask(
            "GET", "/v1/hosts", None, headers=headers, environ_overrides={"REMOTE_ADDR": STRANGER}
        ).status_code

    assert status(keystone.admin) == 200
    for number in range(20):
        status(f"t{number}", **{"X-Service-Token": f"s{number}", "X-Storage-Token": f"r{number}"})
        site.ask(
            "GET",
            "/healthz",
            None,
            headers={"Authorization": f"Bearer b{number}", "X-Storage-Token": f"r{number}"},
            environ_overrides={"REMOTE_ADDR": STRANGER},
        )
    assert [one for one in keystone.asked if one != keystone.admin] == ["t0", "b0", "t1", "b1"]
    assert status(keystone.admin) == 200
    refused = site.ask(
        "GET", "/v1/hosts", None, headers={"X-Auth-Token": "t"}, environ_overrides={"REMOTE_ADDR": STRANGER}
    )
    assert (refused.status_code, refused.get_json()["errors"][0]["code"]) == (429, "memhint.too_many_requests")
    assert int(refused.headers["Retry-After"]) > 1


def test_while_keystone_hangs_a_stranger_has_few_threads_wait(
    make_site: Callable[..., Site], keystone: Keystone
) -> None:
    site = make_site(**{**KEYSTONE, "threads": "2"})
    keystone.answers.clear()
    found: list[int] = []

    def ask(token: str) -> None:
        more = {"headers": {"X-Auth-Token": token}, "environ_overrides": {"REMOTE_ADDR": STRANGER}}
        found.append(site.ask("GET", "/v1/hosts", None, **more).status_code)

    assert site.ask("GET", "/v1/hosts", None, headers={"X-Auth-Token": keystone.admin}).status_code == 200
    threads = [threading.Thread(target=ask, args=(f"t{number}",), daemon=True) for number in range(12)]
    for one in threads:
        one.start()
    while found.count(429) < 4:
        threads[0].join(0.01)
    assert found == [429] * 4  # at once, while the others wait
    assert site.ask("GET", "/v1/hosts", None, headers={"X-Auth-Token": keystone.admin}).status_code == 200
    keystone.answers.set()
    for one in threads:
        one.join(30)
    assert sorted(found) == [401] * 8 + [429] * 4
