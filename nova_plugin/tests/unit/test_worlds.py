"""Both of Nova's worlds, native threads and eventlet: a slow API holds up nobody, and not its own thread for ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.functional.admin_api import AdminApi
from tests.slow import trickling
from tests.told import told

START = """
import sys, time
if sys.argv[2] == "eventlet":
    import eventlet
    eventlet.monkey_patch()
from oslo_config import cfg
from memhint_nova import conf as memhint_conf
conf = cfg.ConfigOpts()
conf.register_opt(cfg.IntOpt("reserved_host_memory_mb", default=512))
memhint_conf.register(conf)
conf([], default_config_files=[], default_config_dirs=[])
conf.set_override("endpoint_override", sys.argv[1], "memhint")
"""

GOES_ON = """
from memhint_nova.shared import shared
conf.set_override("first_wait", 0.0, "memhint")
refresher = shared(conf).refresher
turns = 0
until = time.monotonic() + 30
# A request looks, and goes on with its own work, while the first answer is under way.
while refresher.view().at is None and time.monotonic() < until:
    turns += 1
    time.sleep(0.01)
print(turns, ",".join(refresher.view().hosts))
"""

GIVES_UP = """
from memhint_nova.client import HostsClient
from memhint_nova.errors import LookFailed
from memhint_nova.transport import from_conf
conf.set_override("request_timeout", 0.2, "memhint")
try:
    HostsClient(from_conf(conf), 10.0).look(None)
except LookFailed as error:
    print(error)
"""


def run(program: str, address: str, world: str) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + program, address, world],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("world", ["threads", "eventlet"])
def test_requests_go_on_while_a_slow_api_is_asked(world) -> None:
    api = AdminApi(delay=1.0)
    try:
        api.tell("host-1", **{name: value for name, value in told(1).items() if name not in ("name", "epoch")})
        turns, hosts = run(GOES_ON, api.address, world).split()
    finally:
        api.stop()
    assert hosts == "host-1"
    assert int(turns) > 5


@pytest.mark.parametrize("world", ["threads", "eventlet"])
def test_an_api_that_trickles_bytes_is_hung_up_on_at_the_limit(world) -> None:
    with trickling(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n") as address:
        assert run(GIVES_UP, address, world) == "the answer took longer than 2 s\n"
