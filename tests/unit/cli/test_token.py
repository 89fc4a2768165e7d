from __future__ import annotations

from pathlib import Path

import pytest

from memhint.api.tokens import Tokens
from memhint.cli.main import main


def test_the_printed_line_lets_the_printed_token_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", "shop", "--role", "reader", "--project", "p-1"]) == 0
    printed = capsys.readouterr()
    path = tmp_path / "tokens"
    path.write_text(printed.out)
    path.chmod(0o600)
    found = Tokens(path).find(printed.err.strip())
    assert found is not None
    assert (found.name, found.roles, found.project) == ("shop", ("reader",), "p-1")


WIDE = ["a", "--role", "reader", "--role", "admin", "--project", "p-1"]  # which sees every project


@pytest.mark.parametrize("words", [["a b", "--role", "reader"], ["a"], ["a", "--role", "root"], WIDE])
def test_what_no_line_can_say_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", *words]) == 2
    assert capsys.readouterr().out == ""
