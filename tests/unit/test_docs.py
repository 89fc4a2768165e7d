"""The documentation holds what the code has (options, policy, verdicts, exit codes), and its links lead somewhere."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest
from oslo_config import cfg, types

from memhint.cli.app import EXIT_CODES
from memhint.conf.opts import list_opts
from memhint.conf.policy import PolicyValue
from memhint.objects.exclusion import FORBIDS, Mechanism
from memhint.objects.gap import GapReason
from memhint.objects.plan import Bound, DemandReason
from memhint.objects.policy import KEYS
from memhint.objects.policy_values import Choice, PercentOrMib, ValueType, WholeNumber
from memhint.objects.verdict import Answer, Reason

ROOT = Path(__file__).parents[2]
PAGES = (
    *sorted((ROOT / "doc").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "lab/README.md")),
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OPTION = re.compile(r"`\[(\w+)\] (\w+)")


def page(name: str) -> str:
    return (ROOT / "doc" / name).read_text()


def values_of(option: cfg.Opt) -> str:
    kind = option.type
    choices = getattr(kind, "choices", None)
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    if isinstance(kind, PolicyValue):
        return in_words(kind.key.kind)
    if isinstance(kind, types.Boolean):
        return "`true`, `false`"
    if isinstance(kind, types.Number):
        return f"from {kind.min:g}" if kind.max is None else f"{kind.min:.9g} to {kind.max:.9g}"
    return "text"


def in_words(kind: ValueType) -> str:
    if isinstance(kind, Choice):
        return ", ".join(f"`{word}`" for word in kind.words)
    if isinstance(kind, WholeNumber):
        unit = f" {kind.unit}" if kind.unit else ""
        return ", ".join((f"{kind.low} to {kind.high}{unit}", *(f"`{word}`" for word in kind.words)))
    if isinstance(kind, PercentOrMib):
        return f"`0%` to `100%`, 0 to {kind.high} MiB"
    return "up to 64 letters, digits and `. _ : -`"


def row_of(option: cfg.Opt) -> str:
    default = option.sample_default or option.default
    if isinstance(default, bool):
        default = str(default).lower()
    if isinstance(default, list):
        default = ",".join(default)
    shown = "empty" if default in ("", None) else f"`{default}`"
    return f"| `{option.dest}` | {shown} | {values_of(option)} | {option.help} |"


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_option_has_its_row_and_no_row_is_left_over() -> None:
    sections = re.split(r"^## \[(\w+)\]$", page("options.md"), flags=re.MULTILINE)
    documented = dict(zip(sections[1::2], sections[2::2], strict=True))
    defined = {group: [row_of(option) for option in options] for group, options in list_opts()}
    assert list(documented) == list(defined)
    for group, rows in defined.items():
        found = [line for line in documented[group].splitlines() if line.startswith("| `")]
        assert found == rows, "the rows of this section should be:\n" + "\n".join(rows)


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_every_policy_key_has_a_row_with_its_values_and_default(key) -> None:
    row = next(line for line in page("policy.md").splitlines() if line.startswith(f"| `{key.name}` |"))
    _, _, values, default, _, _ = (cell.strip() for cell in row.split("|"))
    assert values == in_words(key.kind)
    assert default == (f"`{key.default}`" if key.default else "nobody")


def test_the_opt_outs_that_survive_are_named() -> None:
    for key in KEYS.values():
        if key.opt_out is not None:
            assert f"`{key.name}={key.opt_out}`" in page("policy.md")


@pytest.mark.parametrize("kind", [Answer, Reason, Bound, DemandReason, GapReason], ids=lambda kind: kind.__name__)
def test_every_word_of_a_verdict_or_gap_or_plan_has_a_row(kind: type[StrEnum]) -> None:
    rows = {line.split("|")[1].strip() for line in page("operate.md").splitlines() if line.startswith("| `")}
    assert {f"`{word}`" for word in kind} <= rows


def test_every_exclusion_has_its_row_with_what_it_forbids() -> None:
    rows = {
        line.split("|")[1].strip("` "): line.split("|")[3].strip()
        for line in page("planner.md").splitlines()
        if line.startswith("| `") and line.count("|") == 4
    }
    for reason, ways in FORBIDS.items():
        words = (
            "everything" if ways == set(Mechanism) else ", ".join(way for way in Mechanism if way in ways) or "nothing"
        )
        assert rows[reason] == words


def test_every_exit_code_has_its_row() -> None:
    for code, meaning in re.findall(r"^  (\d)  (.+)$", EXIT_CODES, re.MULTILINE):
        assert f"| {code} | {meaning} |" in page("operate.md")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_options_that_a_page_names_exist(path: Path) -> None:
    defined = {(group, option.dest) for group, options in list_opts() for option in options}
    assert set(OPTION.findall(path.read_text())) <= defined


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(path: Path) -> None:
    for link in LINK.findall(path.read_text()):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        if heading:
            assert heading in anchors(target.read_text()), link
