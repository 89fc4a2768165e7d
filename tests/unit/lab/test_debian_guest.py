from __future__ import annotations

from pathlib import Path

import pytest

from lab import debian_guest, guest_image
from lab.debian_root import RELEASES


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian_guest, "compile_workload", lambda program: program.write_bytes(b"program"))


def laid_over(place: Path, agent: Path | None = None) -> dict[str, str]:
    debian_guest._lay_over(place, agent)
    return {
        str(path.relative_to(place)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in place.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_each_is_of_a_release_that_roots_are_made_of() -> None:
    assert set(debian_guest.GUESTS.values()) <= set(RELEASES)
    assert set(debian_guest.GUESTS) <= set(guest_image.KINDS)


def test_what_is_laid_over_starts_the_workload_and_leaves_the_agent_to_the_distribution(
    tmp_path: Path, no_compiler: None
) -> None:
    found = laid_over(tmp_path / "over")
    assert found["etc/systemd/system/multi-user.target.wants/workload.service"] == "../workload.service"
    assert "ExecStart=/usr/local/sbin/workload" in found["etc/systemd/system/workload.service"]
    assert not any("qemu-guest-agent" in name or "qemu-ga" in name for name in found)


def test_the_projects_own_agent_takes_its_place_by_a_drop_in(tmp_path: Path, no_compiler: None) -> None:
    program = tmp_path / "qemu-ga"
    program.write_text("agent")
    found = laid_over(tmp_path / "over", program)
    assert found[debian_guest.AGENT.lstrip("/")] == "agent"
    assert f"\nExecStart=\nExecStart={debian_guest.AGENT} " in found[debian_guest.AGENT_DROP_IN.lstrip("/")]


def test_the_key_is_what_is_on_the_disk(tmp_path: Path, no_compiler: None) -> None:
    root, other = tmp_path / "bookworm-1" / "root", tmp_path / "bookworm-2" / "root"
    for place in ("a", "b", "c"):
        laid_over(tmp_path / place)
    assert debian_guest._key(root, tmp_path / "a") == debian_guest._key(root, tmp_path / "b")
    assert debian_guest._key(root, tmp_path / "a") != debian_guest._key(other, tmp_path / "a")
    (tmp_path / "c" / "etc" / "hostname").write_text("another\n")
    assert debian_guest._key(root, tmp_path / "a") != debian_guest._key(root, tmp_path / "c")
    masked = next(path for path in (tmp_path / "b" / "etc" / "systemd" / "system").iterdir() if path.is_symlink())
    masked.unlink()
    assert debian_guest._key(root, tmp_path / "a") != debian_guest._key(root, tmp_path / "b")
