"""`make lint`, tox and pre-commit run the same checks: what passes before a commit passes for everybody."""

from __future__ import annotations

import configparser
import os
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TOOLS = ("ruff check", "ruff format", "mypy", "lint-imports", "reno")


def checks(commands: list[str], path: str = "") -> set[tuple[str, str]]:
    """What commands run of the tools, each with the PYTHONPATH that it has."""
    found = set()
    for command in commands:
        words = command.split()
        held = [word.partition("=")[2] for word in words if word.startswith("PYTHONPATH=")]
        plain = " ".join(Path(word).name for word in words if "=" not in word and word != "env")
        for tool in TOOLS:
            if plain.startswith(tool):
                found.add((tool, held[0] if held else path))
    return found


def of_make() -> set[tuple[str, str]]:
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    make = ["make", "-n", "lint", "SHALLOW=false"]  # this very checkout may have no history
    done = subprocess.run(make, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return checks(done.stdout.splitlines())


def imports_alone(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The same, where a path is given to all tools of an environment: only that of lint-imports matters."""
    return {(tool, path if tool == "lint-imports" else "") for tool, path in found}


def test_make_runs_each_tool() -> None:
    assert of_make() == {(tool, "nova_plugin" if tool == "lint-imports" else "") for tool in TOOLS}


def test_tox_runs_the_same() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    found = set()
    for name in ("testenv:pep8", "testenv:mypy"):
        given = tox[name].get("setenv", "").replace(" ", "").partition("PYTHONPATH=")[2]
        found |= checks(tox[name]["commands"].strip().splitlines(), given.removeprefix("{toxinidir}/"))
    assert imports_alone(found) == of_make()


def test_pre_commit_runs_the_same_but_for_release_notes() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert checks([hook["entry"] for hook in hooks]) == {one for one in of_make() if one[0] != "reno"}
