"""`tools/setup`: nothing of the network once all is there, and a sentence where the network is missed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import until

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SUDO_USER"}
"""What setup looks at; in small letters, too. It is each test's own."""
MINE = """\
case "$*" in
-V) echo Python {version} ;;
"-m venv "*)
    mkdir -p "$3/bin"
    echo "command = /usr/bin/python3 -m venv $(realpath "$3")" >"$3/pyvenv.cfg"
    cp {inside} "$3/bin/python" ;;
esac"""
"""A Python that makes virtualenvs."""
INSIDE = """\
case "$*" in
-V) echo Python {version} ;;
*"pip install"*) {installs} ;;
esac"""
"""The Python in them."""


# As apt does it: an index that cannot be read is worth a warning, unless it is told that it is an error.
OFFLINE = """\
echo could not resolve the name of the mirror >&2
case "$*" in
*" install "*) exit 100 ;;
*APT::Update::Error-Mode=any*) exit 100 ;;
esac"""


class Machine:
    """The commands that setup asks for what the machine has, as scripts that write down how they are called."""

    def __init__(self, folder: Path) -> None:
        self.venv = folder / "venv"
        self.folder = folder / "bin"
        self.words: tuple[str, ...] = ()
        self.root = folder / "root"
        (self.root / "usr/sbin").mkdir(parents=True)
        self.policy = self.root / "usr/sbin/policy-rc.d"
        self._calls = folder / "calls"
        self.folder.mkdir()
        self._calls.touch()
        self.command("sleep", "exit 0")

    def command(self, name: str, body: str) -> Path:
        """Have a command do this."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self._calls}\n{body}\n')
        path.chmod(0o755)
        return path

    def python(self, version: str = "3.11.2", installs: str = "exit 0") -> str:
        """A Python, with what its virtualenvs do to install something."""
        inside = self.command(f"inside-{version}", INSIDE.format(version=version, installs=installs))
        return str(self.command(f"python-{version}", MINE.format(version=version, inside=inside)))

    def pip(self, body: str) -> None:
        """Have the pip of the virtualenv that was made do this from now on."""
        self.python(installs=body)
        shutil.copy(self.folder / "inside-3.11.2", self.venv / "bin/python")
        self.python()

    def link(self, name: str) -> None:
        """Have a command of this machine, for where these are the only ones."""
        found = shutil.which(name)
        assert found is not None
        (self.folder / name).symlink_to(found)

    def calls(self, name: str) -> list[str]:
        """How a command was called."""
        return [line for line in self._calls.read_text().splitlines() if line.startswith(f"{name} ")]

    def made(self) -> list[str]:
        """Which virtualenvs were made."""
        return [line for line in self._calls.read_text().splitlines() if " -m venv " in line]

    def setup(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it."""
        with self.started(**environment) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def started(self, **environment: str) -> subprocess.Popen[str]:
        """Start it, with a process group as on a terminal."""
        inherited = {name: value for name, value in os.environ.items() if name.upper() not in ENVIRONMENT}
        around = {**inherited, "PATH": f"{self.folder}:{os.environ['PATH']}", "MEMHINT_SETUP_ROOT": str(self.root)}
        return subprocess.Popen(
            [ROOT / "tools/setup", *self.words, self.venv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**around, **environment},
            start_new_session=True,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One on which all Debian packages are installed, and which no index of packages answers."""
    found = Machine(tmp_path)
    found.command("dpkg-query", "echo installed")
    found.command("id", "echo 0")
    found.command("apt-get", OFFLINE)
    return found


def test_offline_and_all_installed_it_does_nothing(machine: Machine) -> None:
    assert machine.setup(PYTHON=machine.python()).returncode == 0
    python = machine.python(installs="exit 1")
    calls = machine.made()
    done = machine.setup(PYTHON=python)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.calls("apt-get") == []
    assert machine.made() == calls


def test_a_python_that_is_too_old_is_told_before_packages_are_installed(machine: Machine) -> None:
    machine.command("dpkg-query", "exit 1")
    done = machine.setup(PYTHON=str(machine.command("python", "exit 1")))
    assert done.returncode == 1
    assert done.stderr == "setup: Python 3.11 or later is needed; set PYTHON=/path/to/python3.11\n"
    assert machine.calls("apt-get") == []


def test_offline_the_first_time_it_asks_whether_the_machine_is_online(machine: Machine) -> None:
    machine.command("dpkg-query", "exit 1")
    done = machine.setup()
    assert done.returncode == 1
    assert "is this machine online? It has to be, until everything is installed" in done.stderr.splitlines()[-1]
    assert "could not resolve the name of the mirror" in done.stderr
    tries = [one for one in machine.calls("apt-get") if " update " in one]
    assert 2 < len(tries) < 10
    assert done.stdout.count("it is tried again in 10 s") == len(tries) - 1


def test_another_apt_that_reads_the_index_is_waited_for_longer(machine: Machine) -> None:
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", "echo E: Could not get lock /var/lib/apt/lists/lock. >&2; exit 100")
    assert machine.setup().returncode == 1
    assert len([one for one in machine.calls("apt-get") if " update " in one]) == 12


def test_one_broken_source_keeps_nobody_from_what_the_others_have(machine: Machine) -> None:
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", 'case "$*" in *Error-Mode=any*) exit 100 ;; esac')
    done = machine.setup(PYTHON=machine.python())
    assert "the index cannot be read whole" in done.stdout
    assert "Debian packages: done in" in done.stdout
    assert done.returncode == 0


def test_what_cannot_be_installed_is_not_laid_to_the_network_where_the_index_was_read(machine: Machine) -> None:
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", 'case "$*" in *" install "*) echo E: Broken packages; exit 100 ;; esac')
    done = machine.setup()
    assert done.returncode == 1
    assert "E: Broken packages" in done.stderr
    assert "is this machine online?" not in done.stderr


# Says what may start a service while packages are installed.
ASKS = """\
case "$*" in *" install "*)
    if [ -e {policy} ]; then {policy} postgresql start; echo $? >{answer}; else echo none >{answer}; fi ;;
esac"""


def test_no_service_of_a_package_is_started(machine: Machine, tmp_path: Path) -> None:
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", ASKS.format(policy=machine.policy, answer=tmp_path / "answer"))
    machine.setup(PYTHON=machine.python())
    assert (tmp_path / "answer").read_text() == "101\n"
    assert not machine.policy.exists()


def test_a_policy_of_the_machine_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    machine.policy.write_text("#!/bin/sh\nexit 104\n")
    machine.policy.chmod(0o755)
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", ASKS.format(policy=machine.policy, answer=tmp_path / "answer"))
    machine.setup(PYTHON=machine.python())
    assert (tmp_path / "answer").read_text() == "104\n"
    assert machine.policy.read_text() == "#!/bin/sh\nexit 104\n"


def test_through_sudo_it_is_the_same(machine: Machine, tmp_path: Path) -> None:
    machine.command("id", "echo 1000")
    machine.command("sudo", 'exec 3>&- 8>&-\nMEMHINT_IS_ROOT=1 exec "$@"')  # it closes what is open
    asks = ASKS.format(policy=machine.policy, answer=tmp_path / "answer")
    says = 'case "$*" in *" install "*) echo pmstatus:x:1:y >&3 || exit 100 ;; esac'
    machine.command("apt-get", f'[ -n "$MEMHINT_IS_ROOT" ] || exit 100\n{asks}\n{says}')
    machine.command("dpkg-query", "exit 1")
    done = machine.setup(PYTHON=machine.python())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "answer").read_text() == "101\n"
    assert not machine.policy.exists()
    assert any(" rm -f " in one for one in machine.calls("sudo"))


KEEPS = 'case "$1" in --preserve-env=*) shift ;; *) unset https_proxy ;; esac; exec "$@"'
"""As sudo does it."""


def test_sudo_hands_on_the_proxies_that_are_set(machine: Machine, tmp_path: Path) -> None:
    machine.command("id", "echo 1000")
    machine.command("sudo", KEEPS)
    machine.command("apt-get", f'echo "$https_proxy" >>{tmp_path}/proxies')
    machine.command("dpkg-query", "exit 1")
    done = machine.setup(PYTHON=machine.python(), https_proxy="http://proxy:3128", NO_PROXY="localhost", http_proxy="")
    assert done.returncode == 0, done.stderr
    assert set((tmp_path / "proxies").read_text().split()) == {"http://proxy:3128"}
    assert any("--preserve-env=https_proxy,NO_PROXY env " in one for one in machine.calls("sudo"))


def test_without_a_proxy_nobody_needs_the_right_to_hand_one_on(machine: Machine) -> None:
    machine.command("id", "echo 1000")
    machine.command("sudo", KEEPS)
    machine.command("apt-get", "exit 0")
    machine.command("dpkg-query", "exit 1")
    assert machine.setup(PYTHON=machine.python()).returncode == 0
    assert not any("--preserve-env" in one for one in machine.calls("sudo"))


@pytest.mark.parametrize(
    ("around", "said"),
    [
        ({}, "set http_proxy, https_proxy, no_proxy"),
        ({"SUDO_USER": "alice"}, "sudo --preserve-env=http_proxy,https_proxy,no_proxy make"),
        ({"SUDO_USER": "alice", "https_proxy": "http://proxy:3128"}, "set http_proxy, https_proxy, no_proxy"),
    ],
)
def test_what_cannot_be_fetched_may_need_a_proxy(machine: Machine, around: dict[str, str], said: str) -> None:
    assert said in machine.setup(PYTHON=machine.python(installs="exit 1"), **around).stderr.splitlines()[-1]
    machine.command("dpkg-query", "exit 1")
    assert said in machine.setup(**around).stderr.splitlines()[-1]


# Goes on until it is let, or told to end by something else than ctrl-c, which the shell keeps from it.
STAYS = """\
case "$*" in *" install "*)
    echo {said} >&3
    touch {there}
    until [ -e {go} ]; do /bin/sleep 0.01; done
    touch {ended} ;;
esac"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_where_nobody_reads_any_more_dpkg_still_ends_before_a_service_may_start(
    machine: Machine, tmp_path: Path, how: signal.Signals
) -> None:
    """`tee` dies of the same ctrl-c, or was killed by itself: the next word that setup says ends it."""
    there, go, ended = (tmp_path / name for name in ("there", "go", "ended"))
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", STAYS.format(said="pmstatus:dpkg:10:unpacking", there=there, go=go, ended=ended))
    with machine.started(PYTHON=machine.python()) as process:
        try:
            until(there.exists)
            assert process.stdout is not None
            process.stdout.close()
            if how is signal.SIGINT:
                os.killpg(process.pid, how)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
            assert machine.policy.exists()
            go.touch()
            process.wait(30)
        finally:
            go.touch()
        assert ended.exists()
        assert not machine.policy.exists()


def test_a_package_on_hold_is_installed(machine: Machine) -> None:
    said = 'case "$*" in *db:Status-Status*) echo installed ;; *) echo hold ok installed ;; esac'
    machine.command("dpkg-query", said)
    assert machine.setup(PYTHON=machine.python()).returncode == 0
    assert machine.calls("apt-get") == []


@pytest.mark.parametrize("words", [("--for", "unit"), ("--for", "demo")])
def test_where_there_is_no_apt_get_nobody_is_asked_about_the_network(machine: Machine, words: tuple[str, ...]) -> None:
    machine.command("dpkg-query", "exit 1")
    (machine.folder / "apt-get").unlink()
    for name in ("bash", "sh", "dirname", "mktemp", "rm", "awk", "grep", "cat", "pwd", "realpath", "sha256sum", "cut",
                 "sed", "flock", "find", "mkdir", "cp", "mv", "tail", "git"):  # fmt: skip
        machine.link(name)
    machine.words = words
    done = machine.setup(PATH=str(machine.folder), PYTHON=machine.python())
    if words[1] == "unit":
        assert done.returncode == 0, done.stderr
        assert "there is no apt-get here: make sure of" in done.stdout
    else:
        assert done.returncode == 1
        assert "there is no apt-get here: use Debian 12 or 13. Missing: " in done.stderr
    assert machine.calls("sleep") == []


def test_pip_installs_into_the_virtualenv_whatever_is_around(machine: Machine, tmp_path: Path) -> None:
    python = machine.python(installs=f'echo "[$PYTHONPATH][$PYTHONHOME][$PIP_USER]" >>{tmp_path}/around')
    assert machine.setup(PYTHON=python, PYTHONPATH="/x", PIP_USER="1").returncode == 0
    assert set((tmp_path / "around").read_text().split()) == {"[][][0]"}


@pytest.mark.parametrize("said", ["pmstatus:dpkg:10:unpacking", "dlstatus:1:10:retrieving"])
def test_interrupted_it_leaves_no_policy_behind_and_starts_nothing(machine: Machine, tmp_path: Path, said: str) -> None:
    there, go, ended = (tmp_path / name for name in ("there", "go", "ended"))
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", STAYS.format(said=said, there=there, go=go, ended=ended))
    with machine.started() as process:
        try:
            until(there.exists)
            assert machine.policy.exists()
            os.killpg(process.pid, signal.SIGINT)
            assert process.stdout is not None
            if said.startswith("pmstatus"):
                until(lambda: "dpkg ends what it has begun" in process.stdout.readline())  # type: ignore[union-attr]
                assert machine.policy.exists()
                go.touch()
            process.communicate(timeout=30)
        finally:
            go.touch()
    assert process.returncode == 130
    assert ended.exists() is said.startswith("pmstatus")
    assert not machine.policy.exists()


def test_the_policy_of_a_setup_that_was_killed_is_removed_the_next_time(machine: Machine, tmp_path: Path) -> None:
    there, go = tmp_path / "there", tmp_path / "go"
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", STAYS.format(said="x", there=there, go=go, ended=tmp_path / "ended"))
    with machine.started() as process:
        try:
            until(there.exists)
            process.kill()
        finally:
            go.touch()
    assert machine.policy.exists()
    machine.command("dpkg-query", "echo installed")
    machine.setup(PYTHON=machine.python())
    assert not machine.policy.exists()


# A unit each of the machine, of a server that it had, and of what apt-get has installed.
UNITS = """\
[ "$1" = list-unit-files ] || exit 0
printf '%s enabled enabled\n' ssh.service prometheus.service
[ ! -e {installed} ] || printf '%s enabled enabled\n' logrotate.timer postgresql.service rabbitmq-server.service"""


def test_servers_that_were_installed_are_disabled(machine: Machine, tmp_path: Path) -> None:
    (machine.root / "run/systemd/system").mkdir(parents=True)
    machine.command("dpkg-query", "exit 1")
    machine.command("systemctl", UNITS.format(installed=tmp_path / "installed"))
    machine.command("apt-get", f'case "$*" in *" install "*) touch {tmp_path}/installed ;; esac')
    done = machine.setup(PYTHON=machine.python())
    assert "disabled: postgresql.service rabbitmq-server.service\n" in done.stdout
    (disabled,) = [one for one in machine.calls("systemctl") if " disable " in one]
    assert disabled.split()[-2:] == ["postgresql.service", "rabbitmq-server.service"]


def test_without_systemd_nothing_is_disabled(machine: Machine) -> None:
    machine.command("dpkg-query", "exit 1")
    machine.command("systemctl", "exit 1")
    machine.command("apt-get", "exit 0")
    machine.setup(PYTHON=machine.python())
    assert machine.calls("systemctl") == []


def test_no_package_is_removed_for_it(machine: Machine) -> None:
    body = """\
case " $* " in
*" --no-remove "*) echo E: Packages need to be removed but remove is disabled.; exit 100 ;;
*" -s "*) printf '%s\n' 'Remv mysql-server-8.0 [8.0.36]' 'Inst mariadb-server (10.11)' ;;
esac"""
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", body)
    done = machine.setup()
    assert done.returncode == 1
    assert "mysql-server-8.0" in done.stderr.splitlines()[-1]
    assert "mariadb" not in done.stderr.splitlines()[-1]


def test_offline_without_a_virtualenv_it_asks_the_same(machine: Machine) -> None:
    done = machine.setup(PYTHON=machine.python(installs="exit 1"))
    assert done.returncode == 1
    assert "the virtualenv could not be made (above): is this machine online?" in done.stderr
    assert not (machine.venv / ".stamp").exists()


def test_a_virtualenv_that_is_whole_is_not_made_anew(machine: Machine) -> None:
    machine.setup(PYTHON=machine.python())
    (machine.venv / ".stamp").write_text("of other requirements\n")
    (machine.venv / "kept").touch()
    done = machine.setup(PYTHON=machine.python())
    assert done.returncode == 0
    assert len(machine.made()) == 1
    assert (machine.venv / "kept").exists()
    assert (machine.venv / ".stamp").read_text() != "of other requirements\n"


NO_INDEX = """\
case "$*" in
*"-r requirements.txt"*) exit 0 ;; # all of them are there
*--no-build-isolation*) exit 0 ;;
*) echo No matching distribution found for pbr >&2; exit 1 ;;
esac"""


def test_offline_what_is_edited_of_the_project_is_built_with_what_is_there(machine: Machine) -> None:
    machine.setup(PYTHON=machine.python())
    (machine.venv / ".stamp").write_text("of another lint rule\n")
    machine.pip(NO_INDEX)
    again = machine.setup(PYTHON=machine.python())
    assert again.returncode == 0, again.stderr
    assert len(machine.made()) == 1


def test_what_builds_the_project_is_among_what_is_installed_for_it() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    lines = [line for name in ("requirements.txt", "test-requirements.txt") for line in (ROOT / name).open()]
    assert {re.split("[<>=]", one)[0] for one in needed} <= {re.split("[<>=]", one)[0] for one in lines}


@pytest.mark.parametrize(("said", "stays"), [("Collecting ruff", True), ("Installing collected packages: ruff", False)])
def test_until_pip_changes_something_an_edit_can_be_taken_back(machine: Machine, said: str, stays: bool) -> None:
    machine.setup(PYTHON=machine.python())
    stamp = machine.venv / ".stamp"
    stamp.write_text("of what was before the edit\n")
    machine.pip(f"echo {said}; exit 1")
    assert machine.setup(PYTHON=machine.python()).returncode == 1
    assert stamp.exists() is stays
    assert not stays or stamp.read_text() == "of what was before the edit\n"


def break_off(venv: Path) -> None:
    """As ctrl-c leaves it: pip comes last."""
    shutil.rmtree(venv)
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(f"command = /usr/bin/python3 -m venv {venv}\n")
    (venv / "bin/python").write_text('#!/bin/sh\ncase "$*" in -V) echo Python 3.11.2 ;; *pip*) exit 1 ;; esac\n')
    (venv / "bin/python").chmod(0o755)


def break_off_at_once(venv: Path) -> None:
    """The same, with directories only."""
    shutil.rmtree(venv)
    (venv / "bin").mkdir(parents=True)
    (venv / "lib64").symlink_to("lib")


def empty(venv: Path) -> None:
    """All has gone but the stamp."""
    stamp = (venv / ".stamp").read_text()
    shutil.rmtree(venv)
    venv.mkdir()
    (venv / ".stamp").write_text(stamp)


def upgrade(venv: Path) -> None:
    """Python is another, and has no library here."""
    python = venv / "bin/python"
    python.write_text('#!/bin/sh\ncase "$*" in -V) echo Python 3.13.5 ;; *pip*) exit 1 ;; esac\n')


def move(venv: Path) -> None:
    """It was made elsewhere: what is in bin names a Python there."""
    (venv / "pyvenv.cfg").write_text("command = /usr/bin/python3 -m venv /home/alice/memhint/.venv\n")
    (venv / ".stamp").write_text("of another place\n")


@pytest.mark.parametrize("harm", [break_off, break_off_at_once, empty, upgrade, move])
def test_a_virtualenv_that_is_not_whole_is_made_anew(machine: Machine, harm: Callable[[Path], None]) -> None:
    for name in ("python3", "python"):  # where PYTHON is not set
        shutil.copy(machine.python(), machine.folder / name)
    assert machine.setup(PYTHON="").returncode == 0
    harm(machine.venv)
    done = machine.setup(PYTHON="")
    assert done.returncode == 0, done.stderr
    assert len(machine.made()) == 2
    again = machine.setup(PYTHON="")
    assert (again.returncode, again.stdout) == (0, "")


def test_another_python_is_taken_only_where_it_is_asked_for(machine: Machine) -> None:
    shutil.copy(machine.python(), machine.folder / "python3")
    machine.setup(PYTHON=machine.python("3.13.1"))
    assert machine.setup(PYTHON="").stdout == ""
    assert len(machine.made()) == 1
    machine.setup(PYTHON=machine.python("3.12.1"))
    assert len(machine.made()) == 2


@pytest.mark.parametrize("names", [("thesis",), ("bin/python", "thesis"), ("lib/deep/thesis", ".stamp")])
def test_what_is_no_virtualenv_is_not_removed(machine: Machine, names: tuple[str, ...]) -> None:
    for name in names:
        (machine.venv / name).parent.mkdir(parents=True, exist_ok=True)
        (machine.venv / name).write_text("#!/bin/sh\n")
        (machine.venv / name).chmod(0o755)
    done = machine.setup(PYTHON=machine.python())
    assert done.returncode == 1
    assert "is no virtualenv" in done.stderr
    assert all((machine.venv / name).exists() for name in names)
    assert machine.made() == []


def test_two_at_once_make_it_once(machine: Machine, tmp_path: Path) -> None:
    there, go = tmp_path / "there", tmp_path / "go"
    python = machine.python(installs=f"touch {there}; until [ -e {go} ]; do /bin/sleep 0.01; done")
    with machine.started(PYTHON=python) as first, machine.started(PYTHON=python) as second:
        try:
            until(there.exists)
            said: list[str] = []
            for process in (first, second):
                assert process.stdout is not None
                said.append(process.stdout.readline())
            assert sorted("waiting" in line for line in said) == [False, True]
        finally:
            go.touch()
        for process in (first, second):
            process.communicate(timeout=30)
            assert process.returncode == 0
    assert len(machine.made()) == 1
    assert len([one for one in machine.calls("inside-3.11.2") if "requirements.txt" in one]) == 1


def test_ctrl_c_ends_what_it_runs(machine: Machine, tmp_path: Path) -> None:
    there = tmp_path / "there"
    python = machine.python(installs=f"echo $$ >{there}; exec /bin/sleep 100")
    with machine.started(PYTHON=python) as process:
        until(lambda: there.exists() and there.read_text() != "")
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130
    until(lambda: not Path(f"/proc/{there.read_text().strip()}").exists())


@pytest.mark.parametrize(
    ("words", "there", "absent"),
    [
        ((), {"qemu-system-x86", "postgresql", "mariadb-server", "rabbitmq-server", "spin"}, set()),
        (
            ("--for", "demo"),
            {"qemu-system-x86", "ninja-build"},
            {"postgresql", "mariadb-server", "rabbitmq-server", "spin"},
        ),
        (
            ("--for", "demo-openstack"),
            {"qemu-system-x86", "mariadb-server", "rabbitmq-server"},
            {"postgresql", "prometheus", "chromium-headless-shell"},
        ),
        (
            ("--for", "unit"),
            {"gcc", "libc6-dev", "libvirt-dev", "libxxhash-dev", "pkg-config", "python3-dev", "python3-venv"},
            {"qemu-system-x86", "ninja-build", "openssl", "postgresql", "spin"},
        ),
    ],
)
def test_each_has_the_packages_that_it_needs(
    machine: Machine, words: tuple[str, ...], there: set[str], absent: set[str]
) -> None:
    machine.command("dpkg-query", "exit 1")
    machine.command("apt-get", "exit 100")
    machine.words = words
    (said,) = [line for line in machine.setup(PYTHON=machine.python()).stdout.splitlines() if ": missing: " in line]
    missing = set(said.partition(": missing: ")[2].split())
    assert there <= missing
    assert not absent & missing


def test_style_and_unit_tests_take_no_root_where_the_virtualenv_can_be_made(machine: Machine) -> None:
    machine.command("id", "echo 1000")
    machine.command("sudo", "exit 1")
    machine.command("dpkg-query", 'case "$*" in *qemu*|*postgres*) exit 1 ;; esac; echo installed')
    machine.words = ("--for", "unit")
    done = machine.setup(PYTHON=machine.python())
    assert done.returncode == 0, done.stderr
    assert machine.calls("sudo") == machine.calls("apt-get") == []


@pytest.mark.parametrize(
    ("target", "first"),
    [
        ("lint", "tools/setup --for unit .venv"),
        ("unit", "tools/setup --for unit .venv"),
        ("check", "tools/setup .venv"),
        ("test", "tools/setup .venv"),
    ],
)
def test_make_installs_what_a_target_needs_before_anything_else(target: str, first: str) -> None:
    around = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "VENV")}
    done = subprocess.run(["make", "-n", target], cwd=ROOT, env=around, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == first


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile, with what it calls as scripts that do next to nothing."""
    for name, body in (
        ("lab/preflight.py", "import sys, time; time.sleep(0.5); sys.exit(1)"),
        ("tools/setup", "#!/bin/sh\ntouch installed\n"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(body)
        (tmp_path / name).chmod(0o755)
    for name in ("ruff", "mypy", "lint-imports", "reno"):
        path = tmp_path / ".venv/bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {name} >>ran\n")
        path.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    return tmp_path


def _make(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    around = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "GIT_", "VENV"))}
    return subprocess.run(["make", *words], cwd=checkout, env=around, capture_output=True, text=True, check=False)


def test_nothing_is_installed_on_a_machine_that_will_not_do_however_many_jobs_make_has(checkout: Path) -> None:
    assert _make(checkout, "-j4", "demo").returncode != 0
    assert not (checkout / "installed").exists()


def test_release_notes_are_looked_at_where_their_history_is(checkout: Path) -> None:
    """A download and a shallow clone have none, and pass."""
    done = _make(checkout, "lint")
    assert done.returncode == 0, done.stderr
    assert "git fetch --unshallow" in done.stdout
    assert "reno" not in (checkout / "ran").read_text()
    subprocess.run(["git", "init", "-q", checkout], check=True)
    assert _make(checkout, "lint").returncode == 0
    assert "reno" in (checkout / "ran").read_text()


@pytest.mark.parametrize("words", [("--for",), ("--for", "nothing"), ("--help",)])
def test_words_that_it_does_not_know(machine: Machine, words: tuple[str, ...]) -> None:
    machine.words = words
    done = machine.setup(PYTHON=machine.python())
    assert done.returncode == 2
    assert "usage: tools/setup" in done.stderr
    assert machine.made() == []


def test_who_is_not_root_and_has_no_sudo_is_told_what_is_missing(machine: Machine) -> None:
    machine.command("dpkg-query", "exit 1")
    machine.command("id", "echo 1000")
    for name in ("bash", "sh", "dirname", "mktemp", "rm", "awk", "grep"):
        machine.link(name)
    done = machine.setup(PATH=str(machine.folder))
    assert done.returncode == 1
    assert "run it as root, or install sudo; missing: " in done.stderr
    assert "qemu-system-x86" in done.stderr
    assert machine.calls("apt-get") == []
