from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memhint.store import open_store
from tests.functional.processes import ROOT
from tests.unit import builders

HEAVY = ("cmd2", "numpy", "matplotlib", "alembic", "sqlalchemy.orm", "rich", "libvirt", "memhint.agent")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "memhint.conf"
    path.write_text(f"[DEFAULT]\nhost_name = host-a\n[store]\nurl = sqlite:///{tmp_path}/memhint.db\n")
    store = open_store(f"sqlite:///{tmp_path}/memhint.db", host="host-a")
    store.reports.save(builders.report(at=time.time(), period=600.0))
    store.close()
    return path


def memhint(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memhint.cli.main", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_reads_what_the_agent_wrote(config: Path) -> None:
    result = memhint("--config-file", str(config), "status", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["host"] == "host-a"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["status"], ["status", "--json"], ["token", "create", "shop", "--role", "reader"]])
def test_a_full_disk_is_named_and_no_token_is_shown_that_could_not_be_kept(
    config: Path, words: list[str], unbuffered: str
) -> None:
    result = _into("/dev/full", config, words, unbuffered)
    text = "this cannot be written: No space left on device; make room, and run it again\n"
    assert (result.returncode, result.stderr) == (1, text)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_enough_ends_a_command_without_a_word(config: Path, unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    result = _into(write, config, ["status"], unbuffered)
    os.close(write)
    assert (result.returncode, result.stderr) == (141, "")


def _into(target: str | int, config: Path, words: list[str], unbuffered: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(config), *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open(target, "w", closefd=isinstance(target, str)) as out:
        return subprocess.run(
            command, cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True, check=False, env=environment
        )


def test_the_configuration_may_be_named_after_the_command(config: Path) -> None:
    assert memhint("domains", "--config-file", str(config)).returncode == 0


@pytest.mark.parametrize(("words", "code"), [(["bogus"], 2), (["set"], 2), (["domains", "nobody"], 3)])
def test_the_shell_sees_the_documented_exit_codes(config: Path, words: list[str], code: int) -> None:
    result = memhint("--config-file", str(config), *words)
    assert result.returncode == code
    assert "Traceback" not in result.stderr


def test_a_reader_that_goes_away_early_is_no_error(config: Path) -> None:
    command = f"{sys.executable} -m memhint.cli.main --config-file {config} domains --json | head -n 1"
    result = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.stdout.startswith("[")
    assert "Traceback" not in result.stderr


def test_showing_loads_nothing_heavy(config: Path) -> None:
    script = (
        "import sys; from memhint.cli.main import main; "
        f"assert main(['--config-file', {str(config)!r}, 'status', '-f', 'value', '-c', 'host']) == 0; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["host-a", "[]"]
