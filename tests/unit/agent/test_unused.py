"""Modules that stand aside until they are used. Each test has a process of its own: loading cannot be taken back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from memhint.agent.unused import UNUSED

_BEGIN = """
import sys
from memhint.agent.unused import UNUSED, Unloaded, leave_unloaded
def aside(name):
    return type(sys.modules[name]) is Unloaded
leave_unloaded()
"""


def told(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", _BEGIN + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_libraries_of_an_agent_leave_every_one_of_them_aside() -> None:
    code = "import memhint.agent.service; print(*(name for name in UNUSED if aside(name)))"
    assert told(code).split() == list(UNUSED)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("import netaddr; print(netaddr.valid_ipv4('10.0.0.1'), aside('netaddr'))", "True False"),
        ("import netaddr.core; print(netaddr.core.INET_PTON > 0, aside('netaddr'))", "True False"),
        ("from rfc3986 import uri_reference; print(uri_reference('a://b').scheme)", "a"),
        ("from xmlrpc import client; print(client.DateTime.__name__)", "DateTime"),
        ("import logging.config; print(logging.config.dictConfig.__name__)", "dictConfig"),
        ("import stevedore; print(stevedore.ExtensionManager.__name__)", "ExtensionManager"),
    ],
)
def test_one_that_is_used_after_all_is_loaded(code: str, answer: str) -> None:
    assert told(code) == answer


def test_the_configuration_still_checks_addresses() -> None:
    code = """
from oslo_config import types
print(types.IPAddress()("::1"))
try:
    types.IPAddress()("nowhere")
except ValueError:
    print("refused")
"""
    assert told(code).splitlines() == ["::1", "refused"]


def test_what_is_loaded_or_not_installed_is_left_alone() -> None:
    code = """
import json
leave_unloaded(["json", "memhint_that_is_not_there"])
print(aside("json"), "memhint_that_is_not_there" in sys.modules)
"""
    assert told(code) == "False False"


def test_threads_that_use_one_at_once_have_the_same() -> None:
    code = """
import threading
import netaddr
found = []
start = threading.Barrier(8)
def use():
    start.wait()
    found.append(netaddr.IPAddress)
threads = [threading.Thread(target=use) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
print(len(found), len(set(found)))
"""
    assert told(code) == "8 1"
