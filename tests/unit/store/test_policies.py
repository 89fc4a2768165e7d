from __future__ import annotations

import pytest
from sqlalchemy import event, update

from memhint.objects.policy import Origin, PolicyError
from memhint.store import Store, StoreDamaged
from memhint.store.tables import policy
from tests.unit.builders import DB, WEB


def test_wishes_are_kept_by_domain_and_origin(store: Store) -> None:
    store.policies.set_operator(WEB, {"reporting": "off"})
    store.policies.replace(WEB, Origin.FLAVOR, {"reporting": "on"})
    store.policies.replace(DB, Origin.METADATA, {"project": "p-1"})
    assert store.policies.inputs() == {
        WEB: {Origin.OPERATOR: {"reporting": "off"}, Origin.FLAVOR: {"reporting": "on"}},
        DB: {Origin.METADATA: {"project": "p-1"}},
    }
    assert store.policies.inputs(DB) == {DB: {Origin.METADATA: {"project": "p-1"}}}


def test_a_wish_is_changed_and_taken_back(store: Store) -> None:
    store.policies.set_operator(WEB, {"reporting": "off"})
    store.policies.set_operator(WEB, {"reporting": "on"})
    assert store.policies.inputs() == {WEB: {Origin.OPERATOR: {"reporting": "on"}}}
    store.policies.set_operator(WEB, {}, ["reporting"])
    store.policies.set_operator(WEB, {}, ["reporting"])
    assert store.policies.inputs() == {}


def test_replace_drops_what_is_not_said_any_more_and_leaves_other_origins(store: Store) -> None:
    store.policies.set_operator(WEB, {"dedup": "on"})
    store.policies.replace(WEB, Origin.METADATA, {"reporting": "off", "dedup": "off"})
    store.policies.replace(WEB, Origin.METADATA, {"reporting": "on"})
    assert store.policies.inputs()[WEB] == {Origin.OPERATOR: {"dedup": "on"}, Origin.METADATA: {"reporting": "on"}}


def test_replace_by_the_same_writes_nothing(store: Store) -> None:
    store.policies.replace(WEB, Origin.METADATA, {"reporting": "off"})
    statements: list[str] = []
    event.listen(store.database.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    store.policies.replace(WEB, Origin.METADATA, {"reporting": "off"})
    assert statements
    assert not [one for one in statements if not one.startswith(("SELECT", "BEGIN"))]
    assert "BEGIN IMMEDIATE" not in statements


def test_an_operators_changes_hold_together_or_not_at_all(store: Store) -> None:
    store.policies.set_operator(WEB, {"reporting": "off", "dedup": "on"})
    store.policies.set_operator(WEB, {"guest_actions": "allow"}, unset=["dedup"])
    wanted = {WEB: {Origin.OPERATOR: {"reporting": "off", "guest_actions": "allow"}}}
    assert store.policies.inputs() == wanted
    with pytest.raises(PolicyError):
        store.policies.set_operator(WEB, {"reporting": "on", "dedup": "perhaps"}, unset=["guest_actions"])
    assert store.policies.inputs() == wanted


def test_what_contradicts_an_operators_earlier_wish_is_refused(store: Store) -> None:
    store.policies.set_operator(WEB, {"fast_min": "60%", "overcommit": "allow"})
    with pytest.raises(PolicyError, match="fast_max"):
        store.policies.set_operator(WEB, {"fast_max": "40%", "overcommit": "deny"})
    assert store.policies.inputs() == {WEB: {Origin.OPERATOR: {"fast_min": "60%", "overcommit": "allow"}}}
    store.policies.set_operator(WEB, {"fast_max": "40%"}, unset=["fast_min"])
    # A flavor's values are checked by Nova each for itself: the lever refuses that VM, and nothing fails here.
    store.policies.replace(WEB, Origin.FLAVOR, {"fast_min": "60%", "fast_max": "40%"})
    assert store.policies.inputs()[WEB][Origin.FLAVOR] == {"fast_min": "60%", "fast_max": "40%"}


@pytest.mark.parametrize(("key", "value"), [("colour", "red"), ("reporting", "perhaps")])
def test_what_no_key_takes_is_not_stored(store: Store, key: str, value: str) -> None:
    with pytest.raises(PolicyError):
        store.policies.set_operator(WEB, {key: value})
    with pytest.raises(PolicyError):
        store.policies.replace(WEB, Origin.METADATA, {key: value})
    assert store.policies.inputs() == {}


@pytest.mark.parametrize("column", ["key", "value", "origin"])
def test_what_no_key_takes_is_damage_when_it_is_stored(store: Store, column: str) -> None:
    store.policies.set_operator(WEB, {"reporting": "off"})
    with store.database.write() as connection:
        connection.execute(update(policy).values({column: "perhaps"}))
    with pytest.raises(StoreDamaged, match="perhaps"):
        store.policies.inputs()


@pytest.mark.parametrize("column", ["key", "value", "origin"])
def test_one_row_that_cannot_be_read_costs_no_other_vm_its_wishes(store: Store, column: str) -> None:
    store.policies.set_operator(WEB, {"reporting": "off", "class": "guaranteed"})
    store.policies.set_operator(DB, {"class": "guaranteed", "guest_actions": "deny"})
    with store.database.write() as connection:
        connection.execute(
            update(policy).where(policy.c.domain_uuid == WEB, policy.c.key == "reporting").values({column: "perhaps"})
        )
    found = store.policies.read()
    assert found.inputs[DB] == {Origin.OPERATOR: {"class": "guaranteed", "guest_actions": "deny"}}
    assert found.inputs[WEB] == {Origin.OPERATOR: {"class": "guaranteed"}}
    assert set(found.unreadable) == {WEB}
    assert "perhaps" in found.unreadable[WEB]


def test_a_wish_of_a_known_key_is_written_over_one_that_cannot_be_read(store: Store) -> None:
    store.policies.set_operator(WEB, {"reporting": "off"})
    with store.database.write() as connection:
        connection.execute(update(policy).values({"value": "perhaps"}))
    store.policies.set_operator(WEB, {"reporting": "on"})
    assert not store.policies.read().unreadable
    assert store.policies.inputs() == {WEB: {Origin.OPERATOR: {"reporting": "on"}}}
