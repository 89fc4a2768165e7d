"""What is installed beside the program: systemd's units and snippets, and logrotate's, by their own tools."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memhint.kernel import damon, ksm, thp
from tests.functional.processes import ROOT

ETC = ROOT / "etc"
UNITS = sorted(path.stem for path in (ETC / "systemd").glob("*.service"))
# systemd's score goes from 0 (nothing to fear) to 10; it calls up to 3 or so OK. The agent must be root and see /proc.
MOST = {"memhint-agent": 3.0, "memhint-api": 1.1, "memhint-controller": 1.1}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units with a program that is there: what they name is made by the installation."""
    for unit in (ETC / "systemd").glob("*.service"):
        programs = f"{Path(sys.executable).parent}/"
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/memhint/bin/", programs))
    return tmp_path


def test_there_is_a_unit_of_each_service() -> None:
    assert sorted(MOST) == UNITS


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_each_unit(unit: str, installed: Path) -> None:
    done = run("systemd-analyze", "verify", "--man=no", str(installed / f"{unit}.service"))
    said = [line for line in done.stderr.splitlines() if unit in line]
    assert (done.returncode, said) == (0, [])


def test_systemd_would_notice_a_word_that_it_does_not_know(installed: Path) -> None:
    unit = installed / "memhint-api.service"
    unit.write_text(unit.read_text().replace("ProtectHome=yes", "ProtectHomes=yes"))
    assert "ProtectHomes" in run("systemd-analyze", "verify", "--man=no", str(unit)).stderr


@pytest.mark.parametrize("unit", UNITS)
def test_no_unit_is_more_exposed_than_it_has_to_be(unit: str) -> None:
    done = run("systemd-analyze", "security", "--offline=true", str(ETC / "systemd" / f"{unit}.service"))
    score = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert score is not None, done.stderr
    assert float(score[1]) <= MOST[unit]


@pytest.mark.parametrize("unit", UNITS)
def test_each_process_can_measure_itself(unit: str) -> None:
    # prometheus_client has no process_* without btime of /proc/stat.
    text = (ETC / "systemd" / f"{unit}.service").read_text()
    assert "ProcSubset=pid" not in text
    assert unit == "memhint-agent" or "ProtectProc=invisible\n" in text


def test_the_single_host_drop_in_leaves_the_api_without_any_capability(installed: Path) -> None:
    place = installed / "memhint-api.service.d"
    place.mkdir()
    (place / "single-host.conf").write_text((ETC / "systemd" / "memhint-api-single-host.conf").read_text())
    done = run("systemd-analyze", "verify", "--man=no", str(installed / "memhint-api.service"))
    assert "memhint-api" not in done.stderr
    shown = run("systemd-analyze", "security", "--offline=true", str(installed / "memhint-api.service")).stdout
    assert re.search(r"^✗ User=", shown, re.MULTILINE)
    assert not re.search(r"^✗ CapabilityBoundingSet=", shown, re.MULTILINE)


@pytest.mark.parametrize("where", [ksm._DIRECTORY, thp._DIRECTORY, damon.BASE, "sys/fs/cgroup"])
def test_the_agents_unit_may_write_where_its_levers_do(where: str) -> None:
    text = (ETC / "systemd" / "memhint-agent.service").read_text()
    places = [
        word.lstrip("-") for line in re.findall(r"^ReadWritePaths=(.+)$", text, re.MULTILINE) for word in line.split()
    ]
    assert any(Path("/", where).is_relative_to(place) for place in places)


def test_the_agents_unit_may_advise_the_kernel_of_other_processes_memory() -> None:
    text = (ETC / "systemd" / "memhint-agent.service").read_text()
    (capabilities,) = re.findall(r"^CapabilityBoundingSet=(.+)$", text, re.MULTILINE)
    assert "CAP_SYS_NICE" in capabilities.split()  # process_madvise, man 2


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_unit_runs_is_a_command_of_memhint(unit: str) -> None:
    (line,) = re.findall(r"^ExecStart=(.+)$", (ETC / "systemd" / f"{unit}.service").read_text(), re.MULTILINE)
    program, *words = line.split()
    assert program == "/opt/memhint/bin/memhint"
    assert run(sys.executable, "-m", "memhint.cli.main", *words, "--help").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="makes users and directories in a root of its own, as root")
def test_the_snippets_make_the_user_and_directories_that_only_memhint_enters(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    made = run("systemd-sysusers", f"--root={tmp_path}", str(ETC / "sysusers.d" / "memhint.conf"))
    assert made.returncode == 0, made.stderr
    user = next(line for line in (tmp_path / "etc" / "passwd").read_text().splitlines() if line.startswith("memhint:"))
    assert user.endswith(":/var/lib/memhint:/usr/sbin/nologin")
    made = run("systemd-tmpfiles", "--create", f"--root={tmp_path}", str(ETC / "tmpfiles.d" / "memhint.conf"))
    assert made.returncode == 0, made.stderr
    group = int(user.split(":")[3])
    for name, mode in (("etc/memhint", 0o40750), ("var/log/memhint", 0o40770)):
        found = (tmp_path / name).stat()
        assert (found.st_mode, found.st_uid, found.st_gid) == (mode, 0, group), name


@pytest.mark.skipif(os.geteuid() != 0, reason="logrotate changes to the user that its file names, as root")
def test_logrotate_moves_a_log_aside_and_the_process_writes_on(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    text = (ETC / "logrotate.d" / "memhint").read_text()
    conf = tmp_path / "memhint"
    # The group is made by sysusers; the tests' machine does not have it.
    conf.write_text(text.replace("/var/log/memhint/", f"{tmp_path}/").replace("su root memhint", "su root root"))
    conf.chmod(0o644)
    log = tmp_path / "memhint-agent.log"
    with log.open("a") as held:
        held.write("before\n")
        held.flush()
        done = run("logrotate", "--force", "--state", str(tmp_path / "state"), str(conf))
        assert done.returncode == 0, done.stderr
        held.write("after\n")
    assert (log.read_text(), (tmp_path / "memhint-agent.log.1").read_text()) == ("after\n", "before\n")


def test_logrotate_rotates_where_the_units_may_log() -> None:
    places = re.findall(r"^(/\S+)/\*\.log \{", (ETC / "logrotate.d" / "memhint").read_text(), re.MULTILINE)
    assert places == ["/var/log/memhint"]
    for unit in UNITS:
        assert "-/var/log/memhint" in (ETC / "systemd" / f"{unit}.service").read_text()
    assert "d /var/log/memhint " in (ETC / "tmpfiles.d" / "memhint.conf").read_text()
