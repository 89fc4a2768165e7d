from __future__ import annotations

import logging
from pathlib import Path

import pytest

from memhint.client.errors import SettingsError
from memhint.client.settings import Settings, read_token


@pytest.mark.parametrize(
    "url", ["", "host:8790", "ftp://x", "http://", "http://x:99999999", "http://x/?a=b", "http://[x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="no URL"):
        Settings(url).check()


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError) as error:
        Settings("http://me:hunter2@x").check()
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("token", ["", "two words", "new\nline", "ünicode", "x" * 5000])
def test_what_no_header_could_carry_is_no_token(token: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings(token=token).check()
    assert not token or token not in str(error.value)


def test_settings_do_not_show_their_token() -> None:
    assert "hunter2" not in repr(Settings(token="hunter2"))


def test_a_token_is_read_without_its_end_of_line(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    path.chmod(0o600)
    assert read_token(path) == "s3cret"


def test_a_token_that_everybody_can_read_is_used_with_a_warning(tmp_path: Path, caplog) -> None:
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert read_token(path) == "s3cret"
    assert "chmod 600" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("text", ["", "\n", "one two", "x" * 5000])
def test_a_file_without_a_token_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(SettingsError, match=str(path)):
        read_token(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_token(tmp_path / "none")


def test_missing_certificates_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="certificates"):
        Settings(ca_file=str(tmp_path / "none")).check()
