"""The lab itself, with real hosts and guests: two hosts, one guest each, one kernel each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import libvirt
import libvirt_qemu
import pytest

from lab import Guest, Lab, wait_for
from lab.cgroup import PARENT, detect
from lab.errors import LabError, StateError, WorkError
from lab.paths import labs_dir
from lab.process import Process
from lab.sizes import GIB, MIB
from lab.teardown import teardown

CHECKOUT = Path(__file__).resolve().parents[2]
KERNELS = ("6.12", "6.1")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(hosts=2, guests=0, memory=512 * MIB, budget=1 * GIB) as lab:
        with ThreadPoolExecutor() as pool:
            list(
                pool.map(
                    lambda pair: pair[0].add_guest("one", kernel=pair[1], project="p1"),
                    zip(lab.hosts, KERNELS, strict=True),
                )
            )
        yield lab


@pytest.fixture(params=KERNELS)
def guest(lab: Lab, request: pytest.FixtureRequest) -> Guest:
    return lab.hosts[KERNELS.index(request.param)].guests[0]


def test_the_workload_answers_and_refuses(guest: Guest) -> None:
    assert guest.work("ping") == {}
    guest.alloc("a", 64 * MIB, content="seed:7")
    assert guest.work("list")["blocks"] == [{"name": "a", "bytes": 64 * MIB, "content": "seed:7"}]
    guest.touch("a")
    guest.free("a")
    assert guest.work("list")["blocks"] == []
    with pytest.raises(WorkError, match="nothing is allocated as a"):
        guest.free("a")
    with pytest.raises(WorkError, match="available"):
        guest.alloc("too-much", 4 * GIB)


def test_the_guest_is_what_was_asked_for(guest: Guest) -> None:
    about = guest.meminfo()
    assert about["kernel"].startswith(f"{guest.kernel}.")
    assert about["boot_id"] == guest.boot_id
    assert about["balloon"] is True
    assert guest.memory * 0.8 < about["MemTotal"] <= guest.memory


def test_the_page_cache_fills_and_empties(guest: Guest) -> None:
    def cached() -> int:
        about = guest.meminfo()
        return int(about["Cached"]) + int(about["Buffers"])

    before = cached()
    guest.fill_cache(64 * MIB)
    assert cached() > before + 60 * MIB
    guest.drop_cache()
    assert cached() < before + 10 * MIB


def test_qemu_is_charged_to_its_host(lab: Lab, guest: Guest) -> None:
    for host in lab.hosts:
        assert (guest.pid() in host.cgroup.pids()) == (host is guest.host)
    assert guest.host.budget == GIB
    assert guest.host.usage() > guest.resident() / 2
    assert guest.host.oom_kills() == 0
    assert guest.host.swap_used() == 0


def test_freed_memory_comes_back_by_page_reporting(guest: Guest) -> None:
    guest.alloc("a", 200 * MIB)
    full = guest.resident()
    guest.free("a")
    wait_for(lambda: guest.resident() < full - 150 * MIB, 60, "the guest's freed memory to return to the host")


def test_a_paused_guest_stands_still_and_goes_on(guest: Guest) -> None:
    guest.pause()
    try:
        wait_for(guest.paused, 30, "the QEMU process to stop")
        with pytest.raises(WorkError, match="no answer"):
            guest.work("ping", deadline=1)
    finally:
        guest.resume()
    assert guest.work("ping", deadline=60) == {}


def test_guests_survive_a_restart_of_libvirtd(guest: Guest) -> None:
    pid, boot = guest.pid(), guest.boot_id
    before = guest.host.record.processes["libvirtd"]
    guest.host.restart_libvirtd()
    assert guest.host.record.processes["libvirtd"] != before
    guest.wait_agent(90)
    assert (guest.pid(), guest.meminfo()["boot_id"]) == (pid, boot)


def test_guests_survive_a_crash_of_libvirtd(guest: Guest) -> None:
    pid = guest.pid()
    guest.host.record.processes["libvirtd"].kill(signal.SIGKILL)
    guest.host.restart_libvirtd()
    guest.wait_agent(90)
    assert guest.pid() == pid


def test_the_agent_dies_lies_and_comes_back(guest: Guest) -> None:
    guest.wait_agent(90)
    guest.work("agent kill")
    assert not guest.agent_answers(1)
    guest.work("agent garbage huge")
    # The imitation answers pings too; libvirt learns of its arrival by an event.
    guest.wait_agent(90)
    answer = libvirt_qemu.qemuAgentCommand(
        guest.domain(), '{"execute": "guest-file-open", "arguments": {"path": "/proc/meminfo"}}', 60, 0
    )
    assert "9223372036854775807" in answer
    guest.work("agent garbage silent")
    assert not guest.agent_answers(1)
    guest.work("agent start")
    guest.wait_agent(90)


def test_hosts_are_apart_and_reached_from_outside(lab: Lab) -> None:
    for host in lab.hosts:
        assert host.run(["hostname"]).stdout.strip() == host.name
        connection = libvirt.open(host.uri)
        assert [domain.UUIDString() for domain in connection.listAllDomains()] == [guest.uuid for guest in host.guests]
        assert "nova:project" in connection.listAllDomains()[0].XMLDesc()
        connection.close()


def test_no_other_user_gets_to_a_socket(lab: Lab, guest: Guest) -> None:
    """Of libvirt or of QEMU: by either of them he would be root."""
    sockets = [path for path in guest.host.state_dir.rglob("*") if path.is_socket()]
    assert {"libvirt-sock", "libvirt-sock-ro", "virtlogd-sock", "monitor.sock"} <= {path.name for path in sockets}
    # The program and its library are wherever this Python is: it is started as root, and becomes nobody then.
    script = (
        "import os, socket, sys\nos.setgroups([]), os.setgid(65534), os.setuid(65534)\n"
        "for path in sys.argv[1:]:\n"
        "    try: socket.socket(socket.AF_UNIX).connect(path)\n"
        "    except PermissionError: continue\n"
        "    print(path)\n"
    )
    words = [sys.executable, "-c", script, *map(str, sockets)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # Where the directory is opened to somebody, those of libvirt stay root's.
    opened = [path.name for path in guest.host.run_dir.iterdir() if path.is_socket() and path.stat().st_mode & 0o077]
    assert opened == []


def test_another_process_can_attach(lab: Lab) -> None:
    again = Lab.attach(lab.name)
    assert [guest.pid() for guest in again.guests] == [guest.pid() for guest in lab.guests]
    assert again.hosts[0].guests[0].work("ping") == {}


def test_an_agent_is_run_and_asked_by_hand(lab: Lab) -> None:
    def words(command: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "lab", command, "--name", lab.name, "host-1", *more]

    refused = subprocess.run(words("memhint", "status"), cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no agent was started on host-1" in refused.stderr
    with subprocess.Popen(words("agent", "--set", "policy.reporting=off"), cwd=CHECKOUT) as agent:
        try:

            def names() -> str:
                asked = words("memhint", "domains", "-f", "value", "-c", "Name")
                return subprocess.run(asked, cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout

            assert wait_for(names, 60, "the agent's VMs") == "one\n"
            second = subprocess.run(words("agent"), cwd=CHECKOUT, capture_output=True, text=True, check=False)
            assert second.returncode == 1
            assert "an agent runs on host-1 already" in second.stderr
        finally:
            agent.send_signal(signal.SIGINT)
        assert agent.wait(120) == 0


def test_a_name_is_taken_once(lab: Lab) -> None:
    with pytest.raises(StateError, match="already"):
        Lab(guests=0, budget=GIB, name=lab.name).up()


def test_what_was_started_ends_when_its_user_is_killed(tmp_path: Path) -> None:
    name = f"killed-{os.getpid()}"
    script = (
        "from lab import Lab\nfrom lab.agent import AgentProcess\nimport time\n"
        f"with Lab(guests=1, memory=256 << 20, budget=1 << 30, swap=64 << 20, name={name!r}) as lab:\n"
        "    with AgentProcess(lab.hosts[0]):\n"
        "        print(lab.directory, flush=True)\n        time.sleep(600)\n"
    )
    user = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )
    assert user.stdout is not None
    directory = labs_dir() / name
    try:
        # Nothing is said by one that did not come up: the path of nothing would be this very checkout.
        assert user.stdout.readline().strip() == str(directory)
        assert directory.is_dir()
        running = Lab.attach(name)
        processes = [*running.hosts[0].record.processes.values(), running.guests[0].process()]
        assert "agent" in running.hosts[0].record.processes
        assert all(process.alive for process in processes)
        cgroups = running.hosts[0].cgroup.paths
        user.send_signal(signal.SIGKILL)
        user.wait()
        wait_for(lambda: not directory.exists(), 180, "the keeper to end the lab")
        assert not any(process.alive for process in processes)
        assert not any(path.exists() for path in cgroups)
        assert str(directory) not in Path("/proc/swaps").read_text()
    finally:
        user.kill()
        user.wait()
        user.stdout.close()
        teardown(directory)


def test_down_finds_what_a_damaged_record_hides() -> None:
    damaged = Lab(guests=0, budget=GIB)
    damaged.up()
    processes = list(damaged.hosts[0].record.processes.values())
    (damaged.directory / "state.json").write_text("{")
    damaged.down()
    assert not any(process.alive for process in processes)
    assert not damaged.directory.exists()
    assert not (detect().memory / PARENT / f"{damaged.name}.host-1").exists()
    assert damaged.down() is False


def test_a_process_with_a_reused_pid_is_left_alone() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        now = Process.of(sleeper.pid)
        assert now is not None
        assert now.alive
        Process(now.pid, now.started - 1).kill(signal.SIGKILL)
        time.sleep(0.1)
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_what_cannot_work_is_refused_with_a_reason() -> None:
    with pytest.raises(LabError, match="smaller --budget"):
        Lab(budget=1 << 50).up()
    with pytest.raises(LabError, match="not one of"):
        Lab(kernel="2.4").up()
    with pytest.raises(LabError, match="cannot be a name"):
        Lab(name="../x")
