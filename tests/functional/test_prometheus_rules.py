"""The alerts: promtool's own checks and tests of them, and a page for each."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "etc" / "prometheus" / "memhint.rules.yml"
CASES = ROOT / "tests" / "functional" / "prometheus" / "alerts.yml"
PAGES = ROOT / "doc" / "runbooks"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
}


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)


def test_promtool_accepts_the_rules() -> None:
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_where_it_should_and_is_calm_elsewhere() -> None:
    done = promtool("test", "rules", str(CASES))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_promtool_notices_an_alert_that_never_fires(alert: str, tmp_path: Path) -> None:
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        group["rules"] = [one if one["alert"] != alert else {**one, "expr": "vector(1) > 2"} for one in group["rules"]]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    cases = yaml.safe_load(CASES.read_text())
    cases["rule_files"] = [str(tmp_path / "rules.yml")]
    cases["tests"] = [one for one in cases["tests"] if one["name"] == alert]
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(cases))
    assert promtool("test", "rules", str(tmp_path / "cases.yml")).returncode != 0


def test_each_alert_has_a_case_before_its_time_and_one_after() -> None:
    expected: dict[str, set[bool]] = {}
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for one in case["alert_rule_test"]:
            expected.setdefault(one["alertname"], set()).add(bool(one["exp_alerts"]))
    assert expected == {alert: {True, False} for alert in ALERTS}


def test_a_backlog_is_told_before_a_queue_is_full() -> None:
    bounds = re.findall(r"memhint-(\w+) '.*\"max-length\": (\d+)", (ROOT / "doc" / "install.md").read_text())
    told = re.findall(r'depth\{queue="(\w+)"\}\) > (\d+)', ALERTS["MemhintBacklog"]["expr"])
    assert {queue for queue, _ in told} == {"state", "record"}
    assert all(2 * int(depth) <= int(dict(bounds)[queue]) for queue, depth in told)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_how_bad_it_is_and_where_to_read_on(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["for"]
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["runbook_url"].endswith(f"/runbooks/{alert}.md")


@pytest.mark.parametrize("alert", ALERTS)
def test_each_page_is_of_its_alert_as_it_is_now(alert: str) -> None:
    rule, page = ALERTS[alert], (PAGES / f"{alert}.md").read_text()
    assert page.startswith(f"# {alert}\n")
    assert f"    {rule['expr']}\n" in page
    assert f"Severity {rule['labels']['severity']}, after {rule['for']}." in page
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == ["Meaning", "Likely causes", "What to do"]


def test_no_page_is_left_over_and_the_list_of_pages_has_all() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {*ALERTS, "README"}
    listed = re.findall(
        r"^\| \[(\w+)\]\(\1\.md\) \| (\w+) \| (\w+) \|", (PAGES / "README.md").read_text(), re.MULTILINE
    )
    assert listed == [(alert, rule["labels"]["severity"], rule["for"]) for alert, rule in ALERTS.items()]


def test_alerts_ask_for_metrics_that_there_are() -> None:
    text = (ROOT / "doc" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(memhint_\w+)` \|", text, re.MULTILINE))
    for alert, rule in ALERTS.items():
        for name in re.findall(r"\bmemhint_\w+", rule["expr"]):
            assert re.sub(r"_(bucket|sum|count)$", "", name) in documented, (alert, name)
