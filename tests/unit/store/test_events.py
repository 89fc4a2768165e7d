from __future__ import annotations

from sqlalchemy import text

from memhint.objects.lever import LeverName
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store import Store, open_store
from memhint.store.log import LEVER, LogEntry
from memhint.store.rows.points import Keep
from tests.told import pulls
from tests.unit.builders import DB, NOW, WEB, lever_state
from tests.unit.store.lived import lived

REFUSED = Verdict(Answer.REFUSED, Reason.CONSENT, "guest_actions is deny")


def test_a_pull_is_kept_with_its_verdict(store: Store) -> None:
    store.events.record("host-a", NOW, [lever_state(desired="off", verdict=REFUSED)])
    (found,) = pulls(store)
    told = (LeverName.REPORTING, "off", Answer.REFUSED, Reason.CONSENT)
    assert found == LogEntry(NOW, LEVER, "host-a", "guest_actions is deny", WEB, None, *told)
    assert found.reason is Reason.CONSENT


def test_the_newest_come_first_and_can_be_had_by_subject(store: Store) -> None:
    for second, subject in enumerate((WEB, DB, WEB)):
        store.events.record("host-a", NOW + second, [lever_state(subject=subject)])
    assert [one.at - NOW for one in pulls(store)] == [2, 1, 0]
    assert [one.at - NOW for one in pulls(store, WEB)] == [2, 0]
    assert [one.at - NOW for one in pulls(store, limit=1)] == [2]


def test_events_older_than_history_go(url: str) -> None:
    store = open_store(url, keep=Keep(3600.0))
    lived(store, NOW + 3601, 3600.0)
    for after in (0, 3601):
        store.events.record("host-a", NOW + after, [lever_state()])
    assert [one.at - NOW for one in pulls(store)] == [3601]
    store.close()


def test_an_event_of_a_newer_version_is_shown_as_unknown(store: Store) -> None:
    store.events.record("host-a", NOW, [lever_state()])
    with store.database.write() as connection:
        connection.execute(text("UPDATE event SET answer = 'perhaps'"))
    (event,) = pulls(store)
    assert str(event.answer) == "unknown"
