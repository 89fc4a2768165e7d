"""What a check of a patch series that passed is remembered by: everything that it depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.patches import passed

READS = ("kernel/run", "kernel/patches", "qemu")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMHINT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(passed.AGAIN, raising=False)
    monkeypatch.setattr(passed, "_installed", lambda: ["gcc 1"])
    checkout = tmp_path / "checkout"
    for folder in ("kernel/patches", "kernel/tests", "qemu"):
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
    (checkout / "kernel/style").write_text("#!/usr/bin/env python3\nimport source\n")
    return checkout


def test_it_changes_with_everything_that_a_check_reads(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("kernel/run", "--version", "6.12")
    seen = {passed.digest(words, READS, root)}
    assert passed.digest(words, READS, root) in seen

    def changed() -> None:
        now = passed.digest(words, READS, root)
        assert now not in seen
        seen.add(now)

    for folder in ("kernel/patches", "qemu"):
        (root / folder / "file").write_text("other")
        changed()
    for name in ("guest.py", "disk.py", "init.sh"):
        (root / "lab" / name).write_text("import os\n")
        changed()
        if name == "guest.py":
            (root / "lab/guest.py").write_text("import lab.disk\n")
            changed()
    (root / "kernel/patches/file").rename(root / "kernel/patches/renamed")
    changed()
    (root / "kernel/patches/renamed").chmod(0o755)
    changed()
    monkeypatch.setattr(passed, "_installed", lambda: ["gcc 2"])
    changed()
    (passed.cache_dir() / "qemu/source/10.0").mkdir(parents=True)
    changed()
    assert passed.digest((*words, "--series"), READS, root) not in seen


def test_it_stays_with_pages_with_what_others_read_and_with_what_it_does_not_import(root: Path) -> None:
    style = ("kernel/style", "kernel/patches")
    before = [passed.digest(("check",), reads, root) for reads in (READS, style)]
    (root / "lab/host.py").write_text("import os\n")
    (root / "kernel/patches/README.md").write_text("Read me.\n")
    (root / "kernel/tests/file").write_text("other")
    assert [passed.digest(("check",), reads, root) for reads in (READS, style)] == before
    (root / "lab/init.sh").write_text("other")
    after = [passed.digest(("check",), reads, root) for reads in (READS, style)]
    assert (after[0] == before[0], after[1] == before[1]) == (False, True)


def test_what_a_check_is_said_to_read_is_there(root: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"said to read .*kernel/gone"):
        passed.digest(("check",), ("kernel/gone",), root)


def test_what_passed_is_not_run_again_unless_it_is_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []

    def run(*words: str) -> None:
        ran.append(words)
        if "broken" in words:
            pytest.fail("it does not pass")

    monkeypatch.setattr(passed, "passes", run)
    monkeypatch.setattr(passed, "ROOT", root)
    for _ in range(2):
        passed.passes_once("qemu/check", "style", reads=READS)
    assert len(ran) == 1
    monkeypatch.setenv(passed.AGAIN, "1")
    passed.passes_once("qemu/check", "style", reads=READS)
    assert len(ran) == 2
    monkeypatch.delenv(passed.AGAIN)
    for _ in range(2):
        with pytest.raises(pytest.fail.Exception):
            passed.passes_once("qemu/check", "broken", reads=READS)
    assert len(ran) == 4


@pytest.mark.parametrize(("version", "lists"), [("6.1", ("series", "series.bitmap")), ("6.12", ("series.host",))])
def test_a_series_patches_are_those_that_its_lists_name(version: str, lists: tuple[str, ...]) -> None:
    found = passed.patches(version, *lists)
    assert set(lists) < {Path(one).name for one in found}
    assert len(found) > len(lists) + 1
    assert all((passed.ROOT / one).is_file() for one in found)
