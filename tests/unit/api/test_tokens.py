from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.api import tokens
from memhint.api.tokens import Entry, TokenFileError, Tokens, create, digest, parse


def put(path: Path, *entries: Entry | str) -> Path:
    path.write_text("".join(f"{one if isinstance(one, str) else one.line()}\n" for one in entries))
    path.chmod(0o600)
    return path


def test_a_new_token_is_found_by_its_line_and_is_not_in_it(tmp_path: Path) -> None:
    token, entry = create("alice", ["reader"], "p-1")
    assert len(token) >= 43
    assert token not in entry.line()
    assert create("alice", ["reader"])[0] != create("alice", ["reader"])[0]
    found = Tokens(put(tmp_path / "t", "# who may in", "", entry)).find(token)
    assert found == Entry("alice", ("reader",), digest(token), "p-1")
    token, entry = create("nova", ["reader", "service"])
    found = Tokens(put(tmp_path / "t", entry)).find(token)
    assert found == Entry("nova", ("reader", "service"), digest(token))


@pytest.mark.parametrize("roles", [["admin"], ["service"], ["reader", "service"]])
def test_no_token_is_made_whose_project_would_bound_nothing(roles: list[str]) -> None:
    with pytest.raises(TokenFileError, match="reader"):
        create("shop", roles, "p-1")


def test_a_line_whose_project_bounds_nothing_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    (token, wide), (_, narrow) = create("shop", ["admin"]), create("green", ["reader"], "p-2")
    known = Tokens(put(tmp_path / "t", narrow, f"{wide.line()} p-1"))
    assert [(one.levelname, "shop" in one.getMessage()) for one in caplog.records] == [("WARNING", True)]
    assert wide.digest not in caplog.text
    found = known.find(token)
    assert found is not None  # it held before
    assert found.roles == ("admin",)


def test_what_is_not_a_token_is_nobodys(tmp_path: Path) -> None:
    token, entry = create("alice", ["admin"])
    known = Tokens(put(tmp_path / "t", entry))
    for other in ("", " ", token[:-1], token + "x", token.upper(), entry.digest, "é", "\0"):
        assert known.find(other) is None


def test_every_entry_is_compared_whoever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [create(name, ["reader"]) for name in ("a", "b", "c")]
    known = Tokens(put(tmp_path / "t", *(entry for _, entry in made)))
    compared: list[str] = []

    def compare(one: str, other: str) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr(tokens.hmac, "compare_digest", compare)
    found = known.find(made[0][0])
    assert found is not None
    assert found.name == "a"
    assert compared == [entry.digest for _, entry in made]


@pytest.mark.parametrize(
    "line",
    [
        "alice",
        "alice admin",
        "alice admin xyz",
        f"alice admin {'A' * 64}",
        f"alice root {'a' * 64}",
        f"alice admin,admin {'a' * 64}",
        f"alice admin, {'a' * 64}",
        f"alice admin {'a' * 64} p q",
        f"-alice admin {'a' * 64}",
        f"alice admin {'a' * 64} p/q",
        f"a admin {'a' * 64}\nb admin {'a' * 64}",
    ],
)
def test_a_line_that_is_none_is_refused_and_not_repeated(line: str) -> None:
    with pytest.raises(TokenFileError, match=r"^line ") as caught:
        parse(line)
    assert "a" * 64 not in str(caught.value)


@given(st.text())
def test_arbitrary_text_is_entries_or_an_error(text: str) -> None:
    try:
        found = parse(text)
    except TokenFileError:
        return
    assert parse("\n".join(one.line() for one in found)) == found


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    (first, one), (second, two) = create("a", ["reader"]), create("b", ["reader"])
    path = put(tmp_path / "t", one)
    known = Tokens(path)
    assert known.find(first)
    assert not known.find(second)
    put(tmp_path / "new", two)
    os.replace(tmp_path / "new", path)
    assert not known.find(first)
    assert known.find(second)


def test_a_file_that_goes_lets_nobody_in_until_it_is_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token, entry = create("a", ["reader"])
    path = put(tmp_path / "t", entry)
    known = Tokens(path)
    path.unlink()
    assert [known.find(token), known.find(token)] == [None, None]
    assert len(caplog.records) == 1
    put(path, entry)
    assert known.find(token)


def test_a_file_that_is_spoilt_changes_nothing_and_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    token, entry = create("a", ["reader"])
    other, added = create("b", ["admin"])
    path = put(tmp_path / "t", entry)
    known = Tokens(path)
    put(path, added, "half a li")
    assert known.find(token)
    assert not known.find(other)
    assert len(caplog.records) == 1
    assert added.digest not in caplog.text


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "t", create("a", ["admin"])[1])
    path.chmod(0o620)
    with pytest.raises(TokenFileError, match="others may write it"):
        Tokens(path)


@pytest.mark.parametrize("spoil", [b"\xff\xfe", b"#" * (1 << 20) + b"#"])
def test_what_is_no_text_or_too_large_is_refused(tmp_path: Path, spoil: bytes) -> None:
    path = tmp_path / "t"
    path.write_bytes(spoil)
    path.chmod(0o600)
    with pytest.raises(TokenFileError):
        Tokens(path)


def test_without_a_file_it_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="memhint token create"):
        Tokens(tmp_path / "none")
