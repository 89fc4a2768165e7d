"""Of what failed the logs are kept, and the message says where. A disk in the way is said in a line."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import Lab, disk_trouble
from lab.command_line import add_command, parser_of, run_command
from lab.demo import __main__ as demo
from lab.errors import BootError, LabError
from lab.openstack import demo as openstack


def logged(lab: Path) -> None:
    for name in ("host-1/log/qemu/one.log", "host-1/memhint/agent.log", "host-1/console/one.log", "control/log/x.out"):
        (lab / name).parent.mkdir(parents=True)
        (lab / name).write_text(name)
    (lab / "host-1/disk").mkdir()
    (lab / "host-1/disk/one.qcow2").write_text("large")


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], Lab]:
    """A lab that ends by an error, its directory going with it."""

    def make(error: BaseException) -> Lab:
        lab = Lab(name="mine", state_dir=tmp_path / "labs", logs=tmp_path / "out")
        monkeypatch.setattr(lab, "up", lambda **_: logged(lab.directory))
        with pytest.raises(type(error)), lab:
            raise error
        return lab

    return make


def test_a_failure_names_its_logs_where_they_are_kept(tmp_path: Path, failing: Callable[[BaseException], Lab]) -> None:
    error = BootError(f"it ended: see {tmp_path}/labs/mine/host-1/log/qemu/one.log")
    failing(error)
    kept = tmp_path / "out/mine"
    assert str(error) == (
        f"it ended: see {kept}/host-1/log/qemu/one.log\nWhat hosts, guests and agents logged is kept in {kept}"
    )
    files = {str(one.relative_to(kept)): one.read_text() for one in kept.rglob("*") if one.is_file()}
    assert files == {name: name for name in files}
    assert len(files) == 4


@pytest.mark.parametrize(("error", "kept"), [(KeyboardInterrupt(), False), (ValueError("a fault"), True)])
def test_ctrl_c_keeps_nothing_and_every_error_does(
    tmp_path: Path, failing: Callable[[BaseException], Lab], error: BaseException, kept: bool
) -> None:
    failing(error)
    assert (tmp_path / "out/mine").exists() == kept


def test_logs_that_cannot_be_kept_hide_no_failure(tmp_path: Path, failing: Callable[[BaseException], Lab]) -> None:
    (tmp_path / "out").write_text("in the way")
    error = BootError("it ended")
    failing(error)
    assert str(error) == "it ended"


FULL = OSError(errno.ENOSPC, "No space left on device")
CLOSED = OSError(errno.EROFS, "Read-only file system", "/root/.cache/memhint")


@pytest.mark.parametrize(
    ("error", "words"),
    [(FULL, "No space left on device: make room there, or"), (CLOSED, "/root/.cache/memhint: Read-only file system: ")],
)
def test_a_disk_in_the_way_is_said_with_what_to_do(error: OSError, words: str) -> None:
    assert words in disk_trouble.said(error)
    assert "MEMHINT_CACHE (now " in disk_trouble.said(error)


def test_another_error_of_the_system_is_a_fault_of_the_program() -> None:
    with pytest.raises(ConnectionRefusedError):
        disk_trouble.said(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))


def by_hand() -> int:
    def fail(_: argparse.Namespace) -> int:
        raise CLOSED

    parser = parser_of("lab", "", "")
    add_command(parser.add_subparsers(), "up", fail, "start")
    return run_command(parser, ["up"])


def a_demo() -> int:
    return demo.main(["--stock", "--out", "/root/.cache/memhint/out"])


def a_stack() -> int:
    return openstack.main([])


@pytest.mark.parametrize("main", [by_hand, a_demo, a_stack])
def test_every_command_says_it_in_a_line(
    main: Callable[[], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CLOSED

    for module in (demo, openstack):
        monkeypatch.setattr(module, "say_when_interrupted", lambda: None)
    monkeypatch.setattr(openstack, "run", fail)
    with monkeypatch.context() as patch:
        if main is a_demo:
            patch.setattr(Path, "mkdir", fail)
        assert main() == 1
    told = "".join(capsys.readouterr())
    assert "/root/.cache/memhint: Read-only file system" in told
    assert "Traceback" not in told


def test_a_message_with_brackets_is_printed_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LabError("last lines of its console:\n[/usr/sbin/init] [red]ended[/]")

    monkeypatch.setattr(demo, "say_when_interrupted", lambda: None)
    monkeypatch.setattr(demo, "_run", fail)
    monkeypatch.setattr(sys, "argv", ["demo"])
    assert demo.main(["--stock", "--out", str(tmp_path)]) == 1
    assert "[/usr/sbin/init] [red]ended[/]" in capsys.readouterr().out
