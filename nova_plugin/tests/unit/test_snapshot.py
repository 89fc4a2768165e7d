"""What is known of all hosts, as news come in."""

from __future__ import annotations

from memhint_nova.host import host
from memhint_nova.snapshot import Snapshot

from tests.told import provider, told


def read(number=1, wall=1000.0, monotonic=100.0, **changes):
    return host(told(number, **changes), wall, monotonic)


def test_changes_are_added_and_the_deleted_go() -> None:
    first = Snapshot().with_news([read(1), read(2)], (), "a", 100.0, whole=True)
    second = first.with_news([read(3)], ["host-1"], "b", 110.0, whole=False)
    assert set(second.hosts) == {"host-2", "host-3"}
    assert set(second.by_provider) == {provider(2), provider(3)}
    assert (second.token, second.at) == ("b", 110.0)
    assert set(first.hosts) == {"host-1", "host-2"}


def test_a_whole_list_replaces() -> None:
    first = Snapshot().with_news([read(1), read(2)], (), "a", 100.0, whole=True)
    assert set(first.with_news([read(2)], (), "b", 110.0, whole=True).hosts) == {"host-2"}


def test_all_that_say_they_are_one_compute_are_kept() -> None:
    one, two = read(1), read(2, provider=provider(1))
    found = Snapshot().with_news([one, two], (), "a", 100.0, whole=True)
    assert found.by_provider == {provider(1): (one, two)}
    assert found.with_news((), ["host-2"], "b", 101.0, whole=False).by_provider == {provider(1): (one,)}


def test_an_older_report_does_not_replace_a_newer_one_but_another_life_does() -> None:
    known = Snapshot().with_news([read(sequence=8)], (), "a", 100.0, whole=True)
    assert known.with_news([read(sequence=7, headroom=0)], (), "b", 101.0, whole=False).hosts["host-1"].headroom > 0
    assert known.with_news([read(sequence=9, headroom=0)], (), "b", 101.0, whole=False).hosts["host-1"].headroom == 0
    other = known.with_news([read(epoch="e2", sequence=1, headroom=0)], (), "b", 101.0, whole=False)
    assert other.hosts["host-1"].headroom == 0


def test_a_report_told_again_lives_no_longer() -> None:
    ahead = {"at": 9000.0}  # the host's clock: the report seems to be made now whenever it is told
    known = Snapshot().with_news([read(**ahead)], (), "a", 100.0, whole=True)
    again = known.with_news([read(monotonic=120.0, **ahead)], (), "b", 120.0, whole=False)
    assert again.hosts["host-1"].expires == known.hosts["host-1"].expires == 130.0
