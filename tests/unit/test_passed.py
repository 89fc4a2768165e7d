"""What a check of a patch series that passed is remembered by: everything that it depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.patches import passed


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMHINT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(passed.AGAIN, raising=False)
    monkeypatch.setattr(passed, "_installed", lambda: ["gcc 1"])
    checkout = tmp_path / "checkout"
    for folder in passed.FOLDERS:
        (checkout / folder).mkdir(parents=True)
        (checkout / folder / "file").write_text(folder)
    (checkout / "lab").mkdir()
    (checkout / "lab/__init__.py").write_text("if TYPE_CHECKING:\n    from lab.host import Host\n")
    for name, text in {
        "guest": "def boot():\n    from lab import disk\n",
        "disk": "",
        "host": "",
        "init.sh": "",
    }.items():
        (checkout / "lab" / (name if "." in name else f"{name}.py")).write_text(text)
    (checkout / "kernel/run").write_text("#!/usr/bin/env python3\nfrom lab.guest import boot\n")
    return checkout


def test_it_changes_with_everything_that_a_check_depends_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("kernel/check", "--style")
    seen = {passed.digest(words, root)}
    assert passed.digest(words, root) in seen

    def changed() -> None:
        now = passed.digest(words, root)
        assert now not in seen
        seen.add(now)

    for folder in passed.FOLDERS:
        (root / folder / "file").write_text("other")
        changed()
    for name in ("guest.py", "disk.py", "init.sh"):
        (root / "lab" / name).write_text("import os\n")
        changed()
        if name == "guest.py":
            (root / "lab/guest.py").write_text("import lab.disk\n")
            changed()
    (root / "kernel/file").rename(root / "kernel/renamed")
    changed()
    (root / "kernel/renamed").chmod(0o755)
    changed()
    monkeypatch.setattr(passed, "_installed", lambda: ["gcc 2"])
    changed()
    (passed.cache_dir() / "qemu/source/10.0").mkdir(parents=True)
    changed()
    assert passed.digest(("kernel/check", "--style", "--version"), root) not in seen


def test_it_stays_with_pages_and_with_what_no_check_imports(root: Path) -> None:
    before = passed.digest(("kernel/check",), root)
    (root / "lab/host.py").write_text("import os\n")
    (root / "kernel/README.md").write_text("Read me.\n")
    assert passed.digest(("kernel/check",), root) == before


def test_what_passed_is_not_run_again_unless_it_is_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []

    def run(*words: str) -> None:
        ran.append(words)
        if "broken" in words:
            pytest.fail("it does not pass")

    monkeypatch.setattr(passed, "passes", run)
    monkeypatch.setattr(passed, "ROOT", root)
    for _ in range(2):
        passed.passes_once("qemu/check", "style")
    assert len(ran) == 1
    monkeypatch.setenv(passed.AGAIN, "1")
    passed.passes_once("qemu/check", "style")
    assert len(ran) == 2
    monkeypatch.delenv(passed.AGAIN)
    for _ in range(2):
        with pytest.raises(pytest.fail.Exception):
            passed.passes_once("qemu/check", "broken")
    assert len(ran) == 4
