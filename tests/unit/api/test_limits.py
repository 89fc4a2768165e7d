from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memhint.api.limits import Buckets, client_of
from tests.clock import Clock


def test_a_burst_and_then_the_rate() -> None:
    clock = Clock()
    buckets = Buckets(2.0, 3, clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    clock.now = 0.5
    assert buckets.take("a") == 0
    assert buckets.take("a") > 0


def test_a_rate_of_nothing_limits_nobody() -> None:
    buckets = Buckets(0.0, 1, Clock())
    assert {buckets.take("a") for _ in range(100)} == {0.0}


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 2)), max_size=200))
def test_memory_is_bounded_and_nobody_gets_more_than_burst_and_rate(steps: list[tuple[int, float]]) -> None:
    clock = Clock()
    buckets = Buckets(1.0, 5, clock, most=60)
    passed: dict[int, int] = {}
    for client, wait in steps:
        clock.now += wait
        passed[client] = passed.get(client, 0) + (buckets.take(str(client)) == 0)
    assert len(buckets) <= 60
    assert all(count <= 5 + clock.now for count in passed.values())


def test_who_asked_least_lately_is_forgotten() -> None:
    buckets = Buckets(1.0, 1, Clock(), most=2)
    assert [buckets.take(name) for name in ("a", "b", "a")] == [0, 0, 1]
    buckets.take("c")
    assert len(buckets) == 2
    assert buckets.take("a") > 0  # b went, not a


def test_an_ipv6_network_is_one_client() -> None:
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1")
    assert client_of("2001:db8:0:1::1") != client_of("2001:db8::1")
    assert client_of("10.0.0.1") != client_of("10.0.0.2")
    assert client_of("fe80::1%eth0") == client_of("fe80::2%eth1")
    assert len(client_of("x" * 1000)) == 64
