"""A policy file of the operator that is spoilt, or says what there is not."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest

from memhint.api import policies
from memhint.api.context import Context
from memhint.api.enforcer import Enforcer
from memhint.conf import ConfigError, load
from tests.unit.api.site import Site

RULE = "memhint:hosts:list"
SPOILT = [b'"memhint:hosts:list": "role:reader\n x: [', b"\xff\xfe", b"- a\n- b\n", b'"memhint:hosts:list": 5\n']


class Desk:
    def __init__(self, place: Path) -> None:
        self.file = place / "policy.yaml"
        self._config = place / "memhint.conf"
        self._config.write_text(f"[oslo_policy]\npolicy_file = {self.file}\n")
        self._at = 1.0e9

    def write(self, text: bytes) -> None:
        self.file.write_bytes(text)
        self._at += 1.0
        os.utime(self.file, (self._at, self._at))

    def enforcer(self) -> Enforcer:
        return Enforcer(load([self._config]))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("text", SPOILT)
def test_a_spoilt_file_ends_the_start_and_is_named(desk: Desk, text: bytes) -> None:
    desk.write(text)
    with pytest.raises(ConfigError, match=r"\[oslo_policy\] policy_file: .*policy.yaml: "):
        desk.enforcer()


@pytest.mark.parametrize("text", SPOILT)
def test_a_file_that_is_spoilt_later_changes_nothing(desk: Desk, text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    admin, reader = (Context(name=role, known=True, roles=[role], system=True) for role in ("admin", "reader"))
    desk.write(b'"memhint:hosts:list": "role:reader"\n')
    enforcer = desk.enforcer()
    for _ in range(2):
        desk.write(text)
        assert [enforcer.allowed(RULE, who, None) for who in (admin, reader, admin)] == [False, True, False]
    assert len([one for one in caplog.records if "the rules before it hold" in one.message]) == 1
    desk.write(b'"memhint:hosts:list": "role:admin"\n')
    assert [enforcer.allowed(RULE, who, None) for who in (admin, reader)] == [True, False]


def test_a_rule_that_there_is_not_is_told(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.write(b'"auditor": "role:auditor"\n"memhint:hosts:lst": "rule:auditor"\n')
    with caplog.at_level(logging.WARNING):
        desk.enforcer()
    assert "rules that there are not, which change nothing: memhint:hosts:lst" in caplog.text


def test_a_rule_that_there_is_not_is_told_after_each_change_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    admin = Context(name="admin", known=True, roles=["admin"], system=True)
    desk.write(b'"memhint:hosts:lst": "role:admin"\n')
    enforcer = desk.enforcer()
    for text in (
        b'"memhint:hosts:lst": "role:reader"',
        b'"memhint:hosts:shw": "role:reader"\n5: "role:a"',
        b"{}",
        b"{}",
    ):
        desk.write(text)
        enforcer.allowed(RULE, admin, None)
    desk.write(b'"memhint:hosts:shw": "role:admin"')
    for _ in range(2):
        enforcer.allowed(RULE, admin, None)
    told = [one.message.rpartition(" ")[2] for one in caplog.records if "which change nothing" in one.message]
    assert told == ["memhint:hosts:lst", "memhint:hosts:shw", "memhint:hosts:shw"]


@pytest.mark.parametrize("text", [b"- a\n- b\n", b"text", b'"memhint:hosts:list": 5\n'])
def test_a_file_of_another_shape_is_told_in_plain_words(
    desk: Desk, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    enforcer = desk.enforcer()
    desk.write(text)
    with pytest.raises(ConfigError, match=r"policy.yaml: is no mapping of rules to text"):
        desk.enforcer()
    enforcer.allowed(RULE, Context(name="admin", known=True, roles=["admin"], system=True), None)
    assert "is no mapping of rules to text" in caplog.text


def test_the_rules_of_a_new_file_are_there_by_themselves(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zones.py").write_text(
        "from memhint.api.policies.base import WHOLE, documented\n"
        'RULES = (documented("memhint:zones:list", WHOLE, "List zones.", "GET /v1/zones"),)\n'
    )
    monkeypatch.setattr(policies, "__path__", [*policies.__path__, str(tmp_path)])
    try:
        assert [one.name for one in policies.list_rules()][-1] == "memhint:zones:list"
        assert desk.enforcer().allowed("memhint:zones:list", Context(name="a", known=True, roles=["admin"]), None)
    finally:
        sys.modules.pop("memhint.api.policies.zones", None)


def test_a_rule_that_nobody_wrote_down_is_a_fault_that_is_answered(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Enforcer.authorize
    monkeypatch.setattr(
        Enforcer, "authorize", lambda self, _rule, who, project: real(self, "memhint:zones:list", who, project)
    )
    answer = site.get("/v1/hosts")
    assert (answer.status_code, answer.get_json()["errors"][0]["code"]) == (500, "memhint.internal")
