"""The dashboard's files among themselves, and against the words of the records that they show."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path

import pytest

from memhint.api.handlers import dashboard
from memhint.objects.domain import DomainState
from memhint.objects.ladder import Rung
from memhint.objects.plan import Bound
from memhint.objects.policy import KEYS
from memhint.objects.policy_values import Choice, Name, PercentOrMib, WholeNumber
from memhint.objects.reclaim import ReclaimState, Stop
from memhint.objects.summary import Freshness
from memhint.store.fleet import HostEventKind
from memhint.web import STATIC

OWN = sorted(path for path in STATIC.rglob("*.js") if "vendor" not in path.parts)
ROOT = Path(__file__).parents[3]


def text(name: str) -> str:
    return (STATIC / name).read_text()


def names_of(literal: str, source: str) -> list[str]:
    """The keys of an object literal of plain words, or the first words of its arrays."""
    body = re.search(rf"const {literal} = ([\[{{].*?\n[\]}}]|[\[{{].*?[\]}}]);", source, re.DOTALL)
    assert body, literal
    if body[1].startswith("{"):
        return re.findall(r"^  (\w+):", body[1], re.MULTILINE)
    return re.findall(r"^  \[\"(\w+)\"", body[1], re.MULTILINE) or re.findall(r"\"(\w*)\"", body[1])


def test_the_policy_keys_are_memhints_own() -> None:
    listed = json.loads(dashboard.policy_keys().partition("POLICY_KEYS = ")[2].rstrip().rstrip(";"))
    assert [one["name"] for one in listed] == list(KEYS)
    for one in listed:
        kind = KEYS[one["name"]].kind
        expected: dict[str, object] = {}
        if isinstance(kind, Choice):
            expected = {"words": list(kind.words)}
        elif isinstance(kind, WholeNumber):
            expected = {"low": kind.low, "high": kind.high}
            expected |= {"words": list(kind.words), "unit": kind.unit}
        elif isinstance(kind, PercentOrMib):
            expected = {"high": kind.high}
        else:
            assert isinstance(kind, Name)
        assert {key: value for key, value in one.items() if key not in ("name", "help")} == expected


@pytest.mark.parametrize(
    ("file", "literal", "words"),
    [
        ("lib/words.js", "HOST_STATE", Freshness),
        ("lib/words.js", "BOUND", Bound),
        ("lib/words.js", "RUNGS", Rung),
        ("lib/words.js", "RECLAIM_STATE", ReclaimState),
        ("lib/words.js", "STOP", Stop),
    ],
)
def test_every_word_of_the_api_has_its_explanation(file: str, literal: str, words: type[StrEnum]) -> None:
    assert names_of(literal, text(file)) == [str(word) for word in words]


def test_filters_offer_every_state_and_kind() -> None:
    assert names_of("STATES", text("views/domains.js")) == ["", *(str(word) for word in DomainState)]
    offered = names_of("KINDS", text("views/events.js"))
    assert offered[:2] == ["", "lever"]
    assert set(offered[2:]) == {str(word) for word in HostEventKind}


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.relative_to(STATIC)))
def test_a_module_imports_what_is_there_and_makes_no_markup(path: Path) -> None:
    source = path.read_text()
    for name in re.findall(r"^import [^;]*?\"([^\"]+)\";", source, re.MULTILINE):
        found = (path.parent / name).resolve()
        assert found.is_file() or str(found.relative_to(STATIC)) == dashboard.POLICY_KEYS, name
    # What VMs and hosts are called comes from tenants: it never becomes markup or code.
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert word not in source
    assert not re.search(r"https?://", source)


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = text("index.html")
    assert not re.search(r"<style|\sstyle=|\son\w+=|https?://", page)
    for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL):
        assert "src=" in attributes
        assert body == ""
    for name in re.findall(r"(?:src|href)=\"([^#\"]+)\"", page):
        assert (STATIC / name).is_file(), name
    assert not re.search(r"url\((?!\"vendor/)|@import", text("style.css"))


def test_the_versions_of_what_is_others_are_named() -> None:
    script = (ROOT / "tools" / "update_web_vendor").read_text()
    readme = text("vendor/README.md")
    for name, version in re.findall(r"^(uplot|inter)=(\S+)$", script, re.MULTILINE):
        assert f"| {version} |" in readme
        assert (STATIC / "vendor" / name / "LICENSE").is_file()
