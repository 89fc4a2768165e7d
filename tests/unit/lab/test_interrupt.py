"""Ctrl-C at a demo or a bench: a word at once, the end of what runs, and no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.functional.processes import ROOT

_HEARD = "\nInterrupted: ending what was started, which takes up to half a minute\n"
_PROGRAM = """
import signal, sys, time
from pathlib import Path
import {module} as program
from lab.errors import LabError
def up(*_, **__):
    try:
        print("up", flush=True)
        time.sleep(60)
    finally:
        print("down", flush=True)
program.{inner} = up
sys.exit(program.main({words}))
"""


def _interrupted(code: str, *, ignoring: bool = False) -> tuple[int, str, str]:
    """The exit code and what was said by a program that got a SIGINT once it had its host up."""

    def begin() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignoring else signal.default_int_handler)

    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=begin,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = ""
        while not said.endswith("up\n"):
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            said += line
        process.send_signal(signal.SIGINT)
        if ignoring:
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        return process.returncode, said + out, err


@pytest.mark.parametrize(
    ("module", "inner", "words"),
    [("lab.demo.__main__", "_run", ["--stock", "--out"]), ("lab.openstack.demo", "run", [])],
)
def test_a_demo_says_that_it_was_heard_and_that_all_has_ended(
    module: str, inner: str, words: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    given = [*words, str(tmp_path_factory.mktemp("demo"))] if words else words
    code, out, err = _interrupted(_PROGRAM.format(module=module, inner=inner, words=given))
    assert (code, err) == (130, _HEARD)
    assert out.endswith("up\ndown\nEverything that was started has been ended.\n")


def test_who_is_to_ignore_it_goes_on_doing_so() -> None:
    code, _, err = _interrupted(_PROGRAM.format(module="lab.openstack.demo", inner="run", words=[]), ignoring=True)
    assert (code, err) == (-signal.SIGTERM, "")


def test_a_bench_ends_without_a_traceback() -> None:
    program = """
import runpy, sys, time
from bench.harness import registry
def up(name):
    print("up", flush=True)
    time.sleep(60)
registry.load = up
sys.argv = ["bench", "density", "--results", "/nonexistent"]
runpy.run_module("bench", run_name="__main__")
"""
    assert _interrupted(program)[::2] == (130, _HEARD)
