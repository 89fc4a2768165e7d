from __future__ import annotations

from memhint.objects.ownership import HOST, Ledger
from memhint.store import Store, open_store
from tests.unit.builders import NOW, WEB, mark


def test_marks_are_a_ledger(store: Store) -> None:
    ledger: Ledger = store.marks
    assert ledger.get(WEB, "merge") is None
    ledger.put(mark())
    assert ledger.get(WEB, "merge") == mark()
    ledger.remove(WEB, "merge")
    ledger.remove(WEB, "merge")
    assert ledger.get(WEB, "merge") is None


def test_the_first_value_before_is_kept_while_the_instance_lives(store: Store) -> None:
    store.marks.put(mark(before="true", after="false"))
    store.marks.put(mark(before="false", after="true", at=NOW + 1))
    assert store.marks.get(WEB, "merge") == mark(before="true", after="true", at=NOW + 1)


def test_another_instance_begins_anew(store: Store) -> None:
    store.marks.put(mark(before="true", instance="1:1"))
    store.marks.put(mark(before="false", instance="2:2"))
    found = store.marks.get(WEB, "merge")
    assert found is not None
    assert (found.before, found.instance) == ("false", "2:2")


def test_all_marks_come_oldest_first(store: Store) -> None:
    store.marks.put(mark(subject=HOST, knob="run", at=NOW + 2))
    store.marks.put(mark(at=NOW + 1))
    assert [one.knob for one in store.marks.all()] == ["merge", "run"]


def test_the_marks_of_one_subject_come_oldest_first(store: Store) -> None:
    store.marks.put(mark(knob="later", at=NOW + 1))
    store.marks.put(mark(knob="last", at=NOW + 2))
    store.marks.put(mark(at=NOW))
    store.marks.put(mark(subject=HOST))
    assert [one.knob for one in store.marks.of(WEB)] == ["merge", "later", "last"]
    assert store.marks.of(HOST) == (mark(subject=HOST),)
    assert store.marks.of("nobody") == ()


def test_hosts_that_share_a_store_do_not_share_marks(store: Store, url: str) -> None:
    other = open_store(url, host="host-b")
    store.marks.put(mark(subject=HOST))
    other.marks.put(mark(subject=HOST, before="other"))
    other.marks.remove(HOST, "merge")
    assert other.marks.all() == other.marks.of(HOST) == ()
    assert store.marks.get(HOST, "merge") == mark(subject=HOST)
    other.close()
