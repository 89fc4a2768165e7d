"""The way of doc/install.md: a wheel from the tree, into a virtualenv that has nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.servers.directory import wait_until
from lab.servers.ports import free_ports
from tests.functional.processes import ROOT

# Whether it holds for the dashboard's files is not to depend on there being any.
OWN_DATA = "memhint/web/static/tried.txt"


def run(*words: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def tree(to: Path) -> None:
    """The files of the tree as they are now, in a repository of their own: pbr packs what git knows."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_bytes((ROOT / name).read_bytes())
    (to / OWN_DATA).parent.mkdir(parents=True, exist_ok=True)
    (to / OWN_DATA).write_text("served")


@pytest.fixture(scope="module", params=["git", "no git"])
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    tree(source)
    if request.param == "git":
        run("git", "init", "-q", cwd=source)
        run("git", "add", "-A", cwd=source)
        run("git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "tree", cwd=source)
    environment = {} if request.param == "git" else {"PBR_VERSION": "0.0.0"}
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps")
    run(*pip, "-w", out, ".", cwd=source, **environment)
    (made,) = out.glob("memhint-*.whl")
    return made


def test_the_wheel_has_every_module_and_the_dashboards_files_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
    tracked = run("git", "ls-files", "-co", "--exclude-standard", "memhint", cwd=ROOT).split()
    expected = {name for name in tracked if (ROOT / name).is_file()} | {OWN_DATA}
    compiled = {name for name in names if name.startswith("memhint/kernel/_pages.") and name.endswith(".so")}
    assert names - compiled == expected
    assert len(compiled) == 1  # there is a compiler where tests run


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    place = tmp_path_factory.mktemp("opt") / "memhint"
    run(sys.executable, "-m", "venv", place, cwd=place.parent)
    run(place / "bin" / "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=place.parent)
    return place / "bin" / "memhint"


@pytest.fixture
def served(program: Path, tmp_path: Path) -> Iterator[str]:
    (port,) = free_ports(1)
    url = f"sqlite:///{tmp_path}/memhint.db"
    make = f"from memhint.store import open_store; open_store({url!r}).close()"
    run(program.parent / "python", "-c", make, cwd=tmp_path)
    conf = tmp_path / "memhint.conf"
    conf.write_text(f"[store]\nurl = {url}\n[api]\nlisten = 127.0.0.1:{port}\nauth = none\n")
    address = f"http://127.0.0.1:{port}"
    with (tmp_path / "log").open("ab") as log:
        process = subprocess.Popen([program, "--config-file", conf, "api"], cwd=tmp_path, stdout=log, stderr=log)
    try:
        wait_until(lambda: answers(address), (tmp_path / "log").read_text(), process)
        yield address
    finally:
        process.terminate()
        assert process.wait(60) == 0


def answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"{address}/healthz", timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("wheel", ["git"], indirect=True)
def test_what_was_installed_runs_from_anywhere(program: Path, tmp_path: Path) -> None:
    assert "memhint" in run(program, "--version", cwd=tmp_path)
    shown = run(program, "--help", cwd=tmp_path)
    for command in ("agent", "api", "controller", "status"):
        assert f"\n  {command}" in shown


@pytest.mark.parametrize("wheel", ["git"], indirect=True)
def test_the_installed_api_serves_itself_its_metrics_and_the_dashboards_files(served: str) -> None:
    with urllib.request.urlopen(f"{served}/healthz", timeout=60) as answer:
        assert json.load(answer)["store"] == "ok"
    with urllib.request.urlopen(f"{served}/metrics", timeout=60) as answer:
        assert b"memhint_api_store_up 1.0" in answer.read()
    with urllib.request.urlopen(f"{served}/dashboard/tried.txt", timeout=60) as answer:
        assert answer.read() == b"served"
    with urllib.request.urlopen(f"{served}/dashboard/", timeout=60) as answer:
        assert answer.read() == (ROOT / "memhint" / "web" / "static" / "index.html").read_bytes()
