"""The images as they are built, against a real database, a real broker and a lab host with a guest.

Run by `make containers`, as root and with buildah. They run by `buildah run --isolation chroot`: with the user, the
capabilities, mounts and command that they have anywhere, but with this machine's network and processes.
The agent has those anywhere.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, wait_for
from lab.agent import agent_config, host_name
from lab.servers.ports import free_ports
from lab.servers.postgres import Postgres
from lab.servers.rabbitmq import PASSWORD, RabbitMQ, definitions
from lab.sizes import GIB, MIB
from tests.containers.images import BUILDAH, ROOT, run

USER = 10790
SOON = 120.0  # seconds
AGENT_CAPABILITIES = ("SYS_PTRACE", "DAC_READ_SEARCH", "DAC_OVERRIDE", "SYS_RESOURCE", "SYS_NICE")
LARGEST = 400  # MB of an image, the Debian below it with it


class Container:
    """A container of an image; its command runs when it is started."""

    def __init__(self, target: str, mounts: Mapping[Path, str], capabilities: Sequence[str] = ()) -> None:
        self.name = run(*BUILDAH, "from", f"localhost/memhint-{target}").strip()
        self.config = json.loads(run(*BUILDAH, "inspect", self.name))["Docker"]["config"]
        self._words = [*BUILDAH, "run", "--isolation", "chroot", "--cap-drop", "all"]
        self._words += [word for one in capabilities for word in ("--cap-add", one)]
        self._words += [word for here, inside in mounts.items() for word in ("-v", f"{here}:{inside}")]
        self._words += [self.name, "--"]
        self._process: subprocess.Popen[bytes] | None = None
        self.log = Path()

    def start(self, log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            words = [*self._words, *self.config["Entrypoint"], *self.config["Cmd"]]
            self._process = subprocess.Popen(words, stdout=out, stderr=out, stdin=subprocess.DEVNULL)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self._words, *words], capture_output=True, text=True, check=False, timeout=60)

    def healthy(self) -> bool:
        """What its health check says."""
        kind, *words = self.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.run(*words).returncode == 0

    def runs(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-3000:]
        return True

    def stop(self) -> int:
        """As `docker stop` does: its first process is told to end. What it ended with."""
        assert self._process is not None
        self._signal(signal.SIGTERM)
        return self._process.wait(90.0)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._signal(signal.SIGKILL)
            self._process.wait(30.0)
        run(*BUILDAH, "rm", self.name)

    def _signal(self, number: signal.Signals) -> None:
        """buildah kills what it is asked to end, so memhint itself is asked: the last of a line of children."""
        assert self._process is not None
        pid = self._process.pid
        while children := [
            child for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()
        ]:
            pid = int(children[0])
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.fixture
def container(images: None) -> Iterator[Callable[..., Container]]:
    with ExitStack() as stack:

        def made(*words: Any, **options: Any) -> Container:
            one = Container(*words, **options)
            stack.callback(one.close)
            return one

        yield made


def readable_inside(path: Path, text: str) -> Path:
    path.write_text(text)
    os.chown(path, 0, USER)
    path.chmod(0o640)
    return path


def test_they_are_small_and_only_the_agent_is_root(images: None) -> None:
    for target, user in (("controller", "memhint"), ("api", "memhint"), ("agent", "")):
        found = json.loads(run(*BUILDAH, "inspect", "--type", "image", f"localhost/memhint-{target}"))
        assert found["Docker"]["config"].get("User", "") == user
        (row,) = json.loads(run(*BUILDAH, "images", "--json", f"localhost/memhint-{target}"))
        print(f"{target}: {row['size']}")
        number, unit = row["size"].split()
        assert unit == "MB", row
        assert float(number) <= LARGEST


def test_a_fleet_of_them_reports_a_real_vm(container: Callable[..., Container], tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    api_port, metrics_port = free_ports(2)
    with ExitStack() as stack:
        database, broker = Postgres(), RabbitMQ(definitions([("memhint-controller", "memhint", ".*", ".*", ".*")]))
        for server in (database, broker):
            stack.callback(server.close)
            server.start()
        database.place.path.chmod(0o711)  # its socket is for the containers' user
        url = database.create("memhint")
        common = (
            f"[store]\nurl = {url}\n[bus]\nurls = {broker.url('memhint-controller')}\n"
            f"[metrics]\nlisten = 127.0.0.1:{metrics_port}\n[api]\nlisten = 127.0.0.1:{api_port}\n"
        )
        assert PASSWORD in common
        conf = tmp_path / "conf"
        conf.mkdir()
        os.chown(conf, 0, USER)
        readable_inside(conf / "memhint.conf", common)
        mounts = {conf: "/etc/memhint:ro", database.place.path: str(database.place.path)}
        controller, api = container("controller", mounts), container("api", mounts)
        # Their health checks ask the ports that the image's own configuration has; here others are free.
        for one in (controller, api):
            one.config["Healthcheck"]["Test"] = [
                word.replace("8791", str(metrics_port)).replace("8790", str(api_port))
                for word in one.config["Healthcheck"]["Test"]
            ]
        made = api.run("memhint", "token", "create", "admin", "--role", "admin")
        assert made.returncode == 0, made.stderr
        readable_inside(conf / "tokens", made.stdout)
        token = made.stderr.split()[-1]
        assert not controller.healthy()
        controller.start(tmp_path / "controller.log")
        wait_for(lambda: controller.runs() and controller.healthy(), SOON, "the controller to be healthy")
        api.start(tmp_path / "api.log")  # it ends where there are no tables yet, which the controller makes
        wait_for(lambda: api.runs() and api.healthy(), SOON, "the API to be healthy")

        lab = stack.enter_context(Lab(guests=1, memory=256 * MIB, budget=2 * GIB))
        host = lab.hosts[0]
        told = a_user_for(broker, host_name(host))
        state, settings = tmp_path / "state", tmp_path / "agent.conf"
        state.mkdir()
        settings.write_text(agent_config(host, Path("/var/lib/memhint"), bus_of(told)))
        agent = container(
            "agent",
            {settings: "/etc/memhint/memhint.conf:ro", state: "/var/lib/memhint", host.state_dir: str(host.state_dir)},
            capabilities=AGENT_CAPABILITIES,
        )
        agent.start(tmp_path / "agent.log")
        wait_for(lambda: agent.runs() and agent.healthy(), SOON, "the agent to be healthy")

        def reported() -> dict[str, Any] | None:
            vms = asked(f"http://127.0.0.1:{api_port}/v1/domains", token).get("domains", [])
            return next((one for one in vms if one["name"] == "guest-1" and one.get("footprint")), None)

        found = wait_for(reported, SOON, "the API to have the VM")
        assert found["footprint"] > 16 * MIB
        assert agent.stop() == 0
        assert controller.stop() == 0
        assert not controller.healthy()


def a_user_for(broker: RabbitMQ, name: str) -> str:
    """What `etc/containers/fleet host` prints for a host."""
    words, env = broker.control_command()
    control = {**os.environ, **env, "RABBITMQCTL": " ".join(words)}
    return run(str(ROOT / "etc/containers/fleet"), "host", name, f"amqp://127.0.0.1:{broker.port}", env=control)


def bus_of(told: str) -> dict[str, dict[str, Any]]:
    (urls,) = (line.removeprefix("urls = ") for line in told.splitlines() if line.startswith("urls = "))
    return {"bus": {"urls": urls, "flush": 1}}


def asked(url: str, token: str) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={"X-Auth-Token": token})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except OSError:
        time.sleep(0.5)
        return {}
