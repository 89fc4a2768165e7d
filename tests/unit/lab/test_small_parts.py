"""State, archive, waiting and zram, each without a lab."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab.cpio import Archive
from lab.errors import StateError, Timeout, WorkError
from lab.fleet.__main__ import main as made_up_fleet
from lab.process import Process
from lab.state import GuestRecord, HostRecord, LabRecord, StateFile, check_name
from lab.swap import zram_used
from lab.virtual_host import VirtualHost
from lab.virtual_host_server import _send
from lab.waiting import listens, wait_for
from lab.work_channel import WorkChannel


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    guest = GuestRecord("g", "u", 1 << 30, "6.1", True, "p1", {"a": "b"}, Process(4, 5))
    host = HostRecord(
        "host-1", "u", "lab.host-1", {"holder": Process(2, 3)}, [guest, GuestRecord("h", "v", 1, "6.12", False)]
    )
    record = LabRecord("lab", "tcg", True, 1 << 31, 0, None, 0, [host])
    StateFile(tmp_path).save(record)
    assert StateFile(tmp_path).load() == record


def test_an_absent_and_a_damaged_record_say_so(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no lab named"):
        StateFile(tmp_path).load()
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(StateError, match="damaged"):
        StateFile(tmp_path).load()


@pytest.mark.parametrize("name", ["", "A", "-a", "a/b", "a.b", "a" * 25, "a\n"])
def test_names_that_could_leave_their_directory_are_refused(name: str) -> None:
    with pytest.raises(StateError):
        check_name(name)


def test_waiting_says_what_it_saw_last() -> None:
    assert wait_for(lambda: 7, 0, "seven") == 7
    with pytest.raises(Timeout, match=r"for a value; last seen: 0"):
        wait_for(lambda: 0, 0.01, "a value", interval=0.001)


def test_a_socket_that_has_only_its_name_does_not_listen(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert not listens(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert not listens(path)
        server.listen()
        assert listens(path)
    assert not listens(path)


def test_an_answer_that_is_longer_than_a_port_takes_at_once_is_sent_whole() -> None:
    class Port(io.BytesIO):
        def write(self, text: Any) -> int:
            return super().write(text[: 32 << 10])

    port = Port()
    _send(port, bytes(range(256)) * 1000)
    assert port.getvalue() == bytes(range(256)) * 1000


def test_a_virtual_host_that_does_not_answer_shows_how_its_console_ends() -> None:
    machine = VirtualHost([])
    try:
        (machine._folder / "console.log").write_text("watchdog: BUG: soft lockup")
        with pytest.raises(WorkError, match="soft lockup"):
            machine.call("time.monotonic", deadline=0.1)
    finally:
        machine.close()


def test_a_request_waits_for_a_qemu_that_has_just_started(tmp_path: Path) -> None:
    path = tmp_path / "s"
    waited = iter([True, True, False])
    with pytest.raises(WorkError, match="is the guest running"):
        WorkChannel(path, "g").request("ping", 30, lambda: next(waited))
    assert next(waited, None) is None
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))

        def running() -> bool:
            server.listen()
            return True

        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(WorkChannel(path, "g").request, "ping", 60, running)
            client = wait_for(lambda: client_of(server), 60, "the request")
            assert client is not None
            with client, client.makefile("rw") as line:
                assert line.readline() == "\n"
                tag = line.readline().split()[0].removeprefix("@")
                line.write(json.dumps({"id": tag, "ok": True, "result": 1}) + "\n")
                line.flush()
                assert asked.result(60) == {"result": 1}


def client_of(server: socket.socket) -> socket.socket | None:
    """Whoever waits to be taken."""
    try:
        return server.accept()[0]
    except OSError:
        return None  # it does not listen yet


def test_the_archive_is_one_that_cpio_reads(tmp_path: Path) -> None:
    archive = Archive()
    archive.file("a/b/c", b"text\n", 0o600)
    archive.link("a/l", "b/c")
    tree = tmp_path / "tree"
    (tree / "d/empty").mkdir(parents=True)
    (tree / "d/run").write_text("#!\n")
    (tree / "d/run").chmod(0o755)
    archive.tree(tree)
    try:
        subprocess.run(["cpio", "-i", "--quiet"], input=archive.content(), cwd=tmp_path, check=True)
    except FileNotFoundError:
        pytest.skip("cpio is not installed")
    assert (tmp_path / "a/l").read_text() == "text\n"
    assert (tmp_path / "a/b/c").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "d/empty").is_dir()
    assert (tmp_path / "d/run").stat().st_mode & 0o777 == 0o755


def test_only_zram_in_use_as_swap_counts(tmp_path: Path) -> None:
    for name, used in (("zram0", 111), ("zram1", 222)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mm_stat").write_text(f"999 555 {used} 0 0 0 0 0 0\n")
    swaps = tmp_path / "swaps"
    swaps.write_text("Filename Type Size Used Priority\n/dev/zram1 partition 1 0 100\n/swapfile file 1 0 -2\n")
    assert zram_used(tmp_path, swaps) == 222


@pytest.mark.parametrize("words", [["--hosts", "0"], ["--hosts", "-3"], ["--vms", "0"], ["--vms", "many"]])
def test_a_fleet_has_hosts_and_vms(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["lab.fleet", "--url", "sqlite://", *words])
    with pytest.raises(SystemExit) as end:
        made_up_fleet()
    assert end.value.code == 2
    assert "say 1 or more" in capsys.readouterr().err
