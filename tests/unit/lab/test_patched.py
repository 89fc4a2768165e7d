"""Which pieces guests stand on: what is built, and the distribution's for the rest."""

from pathlib import Path

import pytest

from lab import patched


def test_nothing_is_built_to_find_out_that_nothing_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMHINT_CACHE", str(tmp_path))
    assert patched.pieces_built("6.1") == patched.Pieces("6.1", "stock", "stock")
    assert patched.pieces_built().patched == ()
    assert list(tmp_path.iterdir()) == []


def test_each_piece_that_is_built_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"qemu", "kernel"}
    monkeypatch.setattr(patched, "_in_cache", lambda command: Path(command[0]).parent.name in there)
    found = patched.pieces_built()
    assert found == patched.Pieces("6.12-memhint", "stock", "memhint")
    assert found.patched == ("kernel", "emulator")
    assert not patched.all_built()
    there.add("guest_agent")
    assert patched.all_built()


def test_a_script_that_says_where_is_asked_with_its_own_words(tmp_path: Path) -> None:
    script = tmp_path / "build"
    script.write_text('#!/bin/sh\n[ "$1 $2" = "--series --if-built" ] && echo /there\n')
    script.chmod(0o755)
    assert patched._in_cache([str(script), "--series"])
    assert not patched._in_cache([str(script)])


def test_kernels_for_comparison_are_built_with_their_own_series() -> None:
    assert patched._kernel_command("6.12-memhint")[1:] == ["--version", "6.12"]
    assert patched._kernel_command("7.3-memhint")[1:] == ["--version", "7.3"]
    assert patched._kernel_command("6.12-plain")[1:] == ["--version", "6.12", "--series", "none"]
    assert patched._kernel_command("6.12-bitmap")[1:] == ["--version", "6.12", "--series", "bitmap"]
    assert patched._kernel_command("6.12-recycler")[1:] == ["--version", "6.12", "--series", "recycler"]
    assert patched.WORDS.keys() <= patched.KERNELS.keys()
