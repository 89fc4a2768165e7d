from __future__ import annotations

import re
from pathlib import Path

from memhint.api.policies import list_rules

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "doc" / "api.md").read_text()
CODE = re.compile(
    r"""Problem\(\s*(?P<status>\d+),\s*"(?P<of>[a-z_.]+)"|(?P<kind>not_found|bad_request)\(\s*"(?P<word>[a-z_.]+)"|"""
    r"""check\([^()]*,\s*"(?P<checked>(?:query|body)\.[a-z_]+)"\)"""
)


def codes() -> set[tuple[str, str]]:
    found = set()
    for path in (ROOT / "memhint" / "api").rglob("*.py"):
        for match in CODE.finditer(path.read_text()):
            if match["of"]:
                found.add((match["of"], match["status"]))
            elif match["checked"]:
                found.add((match["checked"], "400"))
            elif match["kind"] == "not_found":
                found.add((f"{match['word']}.not_found", "404"))
            else:
                found.add((match["word"], "400"))
    return found


def test_every_code_has_its_row_and_no_row_is_left_over() -> None:
    rows = re.findall(r"^\| `memhint\.([a-z_.]+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert set(rows) == codes()
    assert rows == sorted(rows)


def test_every_rule_is_written_down() -> None:
    assert all(one.description for one in list_rules())
