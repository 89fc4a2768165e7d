"""The same commands under both programs, documented, and without what a client does not need."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from memhint.cli.fleet.base import _LOCAL, FleetCommand
from memhint.cli.main import main

ROOT = Path(__file__).parents[4]
OURS = {one.name.replace("_", " "): one for one in entry_points(group="memhint.cli") if ".fleet." in one.value}
THEIRS = {
    one.name.replace("_", " ").removeprefix("memhint "): one for one in entry_points(group="openstack.memhint.v1")
}


def test_both_programs_have_the_same_commands() -> None:
    assert {name: one.value for name, one in OURS.items()} == {
        _LOCAL.get(name, name): one.value for name, one in THEIRS.items()
    }


@pytest.mark.parametrize("name", OURS)
def test_every_command_has_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: memhint {name}")
    assert f"\n  memhint {name}" in out.partition("examples:")[2]


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_documented_under_both_names(name: str) -> None:
    page = (ROOT / "doc" / "cli.md").read_text()
    theirs = {mine: other for other, mine in _LOCAL.items()}.get(name, name)
    assert f"| `memhint {name}" in page
    assert f"`openstack memhint {theirs}`" in page
    assert f"$ memhint {name}" in page, "an example that was tried"


def test_every_command_logs_in() -> None:
    for one in THEIRS.values():
        kind = one.load()
        assert issubclass(kind, FleetCommand)
        assert kind.auth_required


def test_openstackclient_is_not_given_the_store_or_the_server() -> None:
    script = (
        "import sys; from importlib.metadata import entry_points; "
        "[one.load() for group in ('openstack.cli.extension', 'openstack.memhint.v1') "
        "for one in entry_points(group=group) if 'memhint' in one.value]; "
        "print([name for name in ('sqlalchemy', 'memhint.store', 'memhint.api', 'memhint.agent', 'libvirt') "
        "if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
