"""The version, read without importlib.metadata."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from memhint.version import version


def test_it_is_the_installed_packages() -> None:
    assert version() == importlib.metadata.version("memhint")


@pytest.mark.parametrize("name", ["memhint-1.2.dist-info/METADATA", "memhint-1.2-py3.11.egg-info/PKG-INFO"])
def test_it_is_read_as_packages_are_installed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / name
    file.parent.mkdir()
    file.write_text("Metadata-Version: 2.1\nName: memhint\nVersion: 1.2\n\nVersion: of the description\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "none"), str(tmp_path)])
    assert version() == "1.2"
    assert importlib.metadata.version("memhint") == "1.2"


def test_a_tree_that_was_never_installed_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memhint_nova-3.dist-info").mkdir()
    (tmp_path / "memhint_nova-3.dist-info" / "METADATA").write_text("Version: 3\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert version() is None
