"""The thread in both of Nova's worlds, native threads and eventlet: a slow API holds up nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.functional.admin_api import AdminApi
from tests.told import told

PROGRAM = """
import sys, time
if sys.argv[2] == "eventlet":
    import eventlet
    eventlet.monkey_patch()
import threading
from oslo_config import cfg
from memhint_nova.shared import shared
from memhint_nova import conf as memhint_conf
conf = cfg.ConfigOpts()
conf.register_opt(cfg.IntOpt("reserved_host_memory_mb", default=512))
memhint_conf.register(conf)
conf([], default_config_files=[], default_config_dirs=[])
conf.set_override("endpoint_override", sys.argv[1], "memhint")
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


@pytest.mark.parametrize("world", ["threads", "eventlet"])
def test_requests_go_on_while_a_slow_api_is_asked(world) -> None:
    api = AdminApi(delay=1.0)
    try:
        api.tell("host-1", **{name: value for name, value in told(1).items() if name not in ("name", "epoch")})
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, api.address, world],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        api.stop()
    assert run.returncode == 0, run.stderr
    turns, hosts = run.stdout.split()
    assert hosts == "host-1"
    assert int(turns) > 5
