"""A stack: an OpenStack from nothing to ready, and back to nothing."""

from __future__ import annotations

import json
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from openstack.connection import Connection
from openstack.exceptions import HttpException

from lab.at_once import at_once
from lab.cgroup import HostCgroup
from lab.emulated_cpu import CLOCK
from lab.errors import StateError
from lab.image import Progress
from lab.lab import Lab
from lab.openstack import catalog, images, packages, schema, services, settings
from lab.openstack.compute import Compute
from lab.openstack.errors import ServiceFailed
from lab.openstack.extras import Extras
from lab.openstack.network import Network
from lab.openstack.processes import Processes
from lab.openstack.releases import NEWEST, find
from lab.openstack.services import APIS, DAEMONS, KEYSTONE, PROGRAMS
from lab.openstack.settings import DATABASES, PASSWORD, REGION
from lab.openstack.vm import Vm
from lab.servers import bus_users
from lab.servers.directory import ServerDirectory
from lab.servers.mariadb import MariaDB
from lab.servers.rabbitmq import RabbitMQ, definitions
from lab.sizes import GIB, MIB
from lab.waiting import wait_for

READY = 180.0
"""Seconds until a service that does not answer counts as failed."""
_CONTROL = 16 * GIB
"""Bytes the control plane may use: a bound against a leak, not a budget."""
_COMMAND_LINE = "console=ttyS0 quiet panic=1 random.trust_cpu=on mitigations=off"
_BROKER_USER = "openstack"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Past any proxy: only this machine has these addresses."""


@dataclass
class StackRecord:
    """What another process must know to use a running stack. Sizes in bytes."""

    release: str
    computes: int
    fakes: int
    memory: int
    fake_memory: int
    reserved: int
    venv: str = ""
    debug: bool = False
    extras: dict[str, Any] = field(default_factory=dict)
    compute_venv: str = ""
    """Of computes with a libvirt; the same unless their hosts are of another release of Debian."""


class Stack:
    """Used as a context manager it ends with the block, or with this process, however that ends."""

    def __init__(
        self,
        release: str = NEWEST.nova,
        computes: int = 2,
        fakes: int = 0,
        memory: int = 5 * GIB,
        reserved: int = GIB,
        fake_memory: int = 8 * GIB,
        swap: int = 0,
        kernel: str = "6.12",
        agent: str = "stock",
        extras: Extras | None = None,
        accel: str = "auto",
        name: str = "openstack",
        state_dir: Path | str | None = None,
        debug: bool = False,
        progress: Progress | None = None,
        logs: Path | None = None,
    ) -> None:
        """`computes` hosts with a libvirt of their own and `memory` bytes each, of which Nova leaves `reserved` to the
        host; `fakes` that pretend to have `fake_memory`. `swap` bytes of disk swap are for all hosts together; `kernel`
        `agent` and `logs` as a Lab takes them, for all guests."""
        self.extras = extras or Extras()
        self.record = StackRecord(
            find(release).nova, computes, fakes, memory, fake_memory, reserved, "", debug, asdict(self.extras)
        )
        self._tell = progress or (lambda *_: None)
        self.lab = Lab(
            hosts=computes, guests=0, budget=memory, swap=swap, kernel=kernel, agent=agent, accel=accel, name=name,
            state_dir=state_dir, progress=progress, host_packages=packages.HOST_PACKAGES, logs=logs,
        )  # fmt: skip
        self.network = Network.of(self.lab.directory)
        self.lab.network = self.network.prefix
        self._cloud: Connection | None = None
        self._broker: RabbitMQ | None = None
        self._lock = threading.Lock()
        self._ground = packages.MACHINE
        self._bind()

    def _bind(self) -> None:
        self.directory = self.lab.directory / "control"
        self.etc = self.directory / "etc"
        self.logs = self.directory / "log"
        self.processes = Processes(self.logs, HostCgroup(f"{self.lab.name}.control"))
        self.computes: list[Compute] = []

    @classmethod
    def attach(cls, name: str = "openstack", state_dir: Path | str | None = None) -> Stack:
        """A running stack, started by this or another process. It is not ended with this one."""
        stack = cls(name=name, state_dir=state_dir)
        try:
            text = (stack.directory / "stack.json").read_text()
        except FileNotFoundError:
            raise StateError(f"no stack named {name}: start one with lab/openstack/lab up") from None
        stack.record = StackRecord(**json.loads(text))
        stack.extras = Extras(**stack.record.extras)
        stack.lab = Lab.attach(name, state_dir)
        stack._find_computes()
        return stack

    def __enter__(self) -> Stack:
        self.up(keep=True)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        if error is not None:
            self.lab.keep_logs(error)
        self.down()

    # ---- who is there ----

    @property
    def venv(self) -> Path:
        """The virtualenv the services run from."""
        return Path(self.record.venv)

    def venv_of(self, compute: Compute) -> Path:
        """The virtualenv that a compute's nova-compute runs from."""
        return Path(self.record.compute_venv if compute.host else self.record.venv)

    @property
    def cloud(self) -> Connection:
        """A client with the administrator's rights."""
        with self._lock:
            if self._cloud is None:
                self._cloud = catalog.connect(self.network)
            return self._cloud

    def environment(self, user: str = "admin", project: str = "admin") -> dict[str, str]:
        """OS_* variables with which clients find the stack."""
        return catalog.credentials(self.network, user, project)

    def database(self) -> MariaDB:
        """The stack's MariaDB, for whoever needs a database of his own on it."""
        return MariaDB(self._database_place())

    def broker_url(self, user: str = bus_users.CONTROLLER) -> str:
        """AMQP URL of memhint's bus, as the controllers' user or as a compute's, which has its name."""
        return self._rabbitmq().url(user)

    def compute(self, name: str) -> Compute:
        """The compute of that name."""
        for one in self.computes:
            if one.name == name:
                return one
        raise StateError(f"no compute {name}: there are {', '.join(one.name for one in self.computes)}")

    @property
    def services(self) -> list[str]:
        """Names of all that `start`, `kill` and `stop` know."""
        return [
            *services.SERVERS, *(api.name for api in APIS), *DAEMONS, *(one.service for one in self.computes),
        ]  # fmt: skip

    # ---- up and down ----

    def up(self, keep: bool = False) -> None:
        """Start everything. With `keep` a keeper ends it all when this process ends."""
        release = find(self.record.release)
        shared = packages.virtualenv(release, self._tell)
        data = schema.kept(shared, self._tell)
        self.record.venv = self.record.compute_venv = str(shared)
        if self.lab.record.release is not None:
            self._ground = packages.debian_ground(self.lab.record.release, self._tell)
            self.record.compute_venv = str(packages.compute_virtualenv(release, self._ground, self._tell))
        self.lab.up(keep)
        try:
            self.processes.cgroup.create(_CONTROL, 0)
            self._prepare()
            self._tell("stack", "MariaDB and RabbitMQ", 0, 4)
            schema.restore(data, self._database_place())
            self._each(self.start, services.SERVERS)
            self._move_keystone()
            self._tell("stack", "APIs", 1, 4)
            self._each(self._launch, [api.name for api in APIS])
            self._wait_for_api(KEYSTONE.name)
            # A client of its own: it has read the catalog when there was nothing in it.
            with catalog.connect(self.network) as first:
                catalog.fill(first, self.network)
            self._tell("stack", "conductor, scheduler, computes", 2, 4)
            # Only now: a daemon that Keystone does not know ends at once.
            self._each(self._launch, [*DAEMONS, *(one.service for one in self.computes)])
            self._each(self._wait_for_api, [api.name for api in APIS])
            self._tell("stack", "images", 3, 4)
            self._upload()
            self.wait_for_computes()
            self._tell("stack", "ready", 4, 4)
        except BaseException as error:
            self.lab.keep_logs(error)
            self.down()
            raise

    def down(self) -> bool:
        """End everything and remove it; False when there was nothing to end."""
        if self._cloud is not None:
            self._cloud.close()
            self._cloud = None
        ended = self.lab.down()
        self.processes.reap()
        return ended

    def _prepare(self) -> None:
        """Directories, the record, and every service's configuration."""
        for folder in ("etc", "log", "home", "data/nova", "data/neutron", "data/glance/images", "data/glance/staging",
                       "data/glance/tasks"):  # fmt: skip
            (self.directory / folder).mkdir(parents=True)
        (self.lab.directory / "instances").mkdir()
        if self.extras.packages:
            self._tell("packages", "the stack's own", 0, 1)
            self._extend()
            self._tell("packages", "the stack's own", 1, 1)
        for repository in ("fernet", "credential"):
            schema.keys(self.directory / "data" / repository)
        self._find_computes()
        (self.directory / "stack.json").write_text(json.dumps(asdict(self.record), indent=1))
        for server in services.SERVERS:
            (self.logs / f"{server}.log").symlink_to(self.directory / server / "log")
        # Made before anything is configured: the broker has chosen its ports then.
        self._rabbitmq()
        self.configure()

    def _extend(self) -> None:
        """Copies of the virtualenvs with the stack's own packages."""
        more, folder, shared = self.extras.packages, self.lab.directory, self.record.venv
        self.record.venv = str(packages.extended(Path(shared), more, folder / "venv"))
        if self.record.compute_venv == shared:
            self.record.compute_venv = self.record.venv
        else:
            theirs = Path(self.record.compute_venv)
            self.record.compute_venv = str(packages.extended(theirs, more, folder / "compute-venv", self._ground))

    def _find_computes(self) -> None:
        self.computes = [
            Compute(host.name, str(host.record.address), host.state_dir / "nova", host) for host in self.lab.hosts
        ]
        for number in range(1, self.record.fakes + 1):
            name = f"fake-{number}"
            self.computes.append(Compute(name, self.network.control, self.directory / "data" / name, None))

    def configure(self) -> None:
        """Write every service's configuration again, with the extras as they are now; a restart reads it."""
        for kind, user in (("keystone", "keystone"), ("placement", "placement"), ("glance-api", "glance"),
                           ("neutron", "neutron")):  # fmt: skip
            settings.write(self.etc, kind, self._variables(kind, user))
        for part in ("api", "conductor", "scheduler"):
            name = f"nova-{part}"
            settings.write(self.etc, name, self._variables(name, "nova"), more=self.extras.nova.get(part, ""))
        for one in self.computes:
            (one.directory / "lock").mkdir(parents=True, exist_ok=True)
            file = self.etc / f"{one.service}.conf"
            variables = self._variables(one.name, "nova") | {
                "service": one.service,
                "venv": self.venv_of(one),
                "state": one.directory,
                "address": one.address,
                "driver": "libvirt.LibvirtDriver" if one.host else "fake.FakeDriver",
                "reserved_mib": self.record.reserved // MIB if one.host else 0,
                "instances": self.lab.directory / "instances" if one.host else one.directory / "instances",
                "config_files": f"--config-file {file}",
                **self._virtualization(),
            }
            kind = "libvirt" if one.host else "fake"
            more = [self.extras.nova.get(part, "") for part in ("compute", *(["libvirt"] if one.host else []))]
            settings.write(self.etc, kind, variables, one.service, "\n".join(more))

    def _virtualization(self) -> dict[str, str]:
        if self.lab.record.accel == "kvm":
            return {"virt_type": "kvm", "cpu_mode": "host-passthrough", "cpu_models": ""}
        return {"virt_type": "qemu", "cpu_mode": "custom", "cpu_models": "qemu64"}

    def _variables(self, name: str, user: str) -> dict[str, object]:
        data = self.directory / "data"
        database = MariaDB(self._database_place())
        return {
            "name": name,
            "service": name,
            "logs": self.logs,
            "data": data,
            "state": data / "nova",
            "venv": self.venv,
            "address": self.network.control,
            "region": REGION,
            "user": user,
            "password": PASSWORD,
            "debug": str(self.record.debug).lower(),
            "keystone_url": self.network.url(KEYSTONE.port, KEYSTONE.path),
            "glance_url": next(self.network.url(api.port) for api in APIS if api.type == "image"),
            "transport_url": self._rabbitmq().url(_BROKER_USER, vhost=_BROKER_USER).replace("amqp:", "rabbit:"),
            **{f"database_{one}": database.url(one, "mysql") for one in DATABASES},
        }

    # ---- services ----

    def start(self, name: str) -> None:
        """Start a service that has ended, and wait until it answers."""
        self._launch(name)
        if name in (api.name for api in APIS):
            self._wait_for_api(name)

    def stop(self, name: str) -> None:
        """End a service in order."""
        self.processes.end(name)

    def kill(self, name: str) -> None:
        """End a service as a power cut would, with all its processes."""
        self.processes.end(name, signal.SIGKILL)

    def restart(self, name: str) -> None:
        """Stop a service and start it again."""
        self.stop(name)
        self.start(name)

    def _launch(self, name: str) -> None:
        if name == "mariadb":
            many = ("--max-connections=400", "--innodb-buffer-pool-size=128M")
            database = MariaDB(self._database_place(), many)
            database.start()
            assert database.process is not None
            self.processes.adopt(name, database.process)
            return
        if name == "rabbitmq":
            broker = self._rabbitmq()
            broker.start()
            assert broker.process is not None
            self.processes.adopt(name, broker.process)
            return
        self.processes.start(name, *self._command(name))

    def _command(self, name: str) -> tuple[list[str], dict[str, str]]:
        """The words and the environment that start a service."""
        compute = next((one for one in self.computes if one.service == name), None)
        venv = self.venv_of(compute) if compute else self.venv
        python = str(venv / "bin" / "python")
        environment = services.environment(self.directory / "home", venv)
        if name.startswith("nova"):
            environment |= self.extras.environment
        for api in APIS:
            if api.name == name:
                for key, value in api.environment.items():
                    environment[key] = value.format(etc=self.etc, venv=self.venv)
                return services.api_command(api, self.network.control, self.venv), environment
        configuration = ["--config-file", str(self.etc / f"{name}.conf")]
        if name in DAEMONS:
            return [python, str(venv / "bin" / name), *configuration], environment
        if compute is not None:
            memory = self.record.memory if compute.host else self.record.fake_memory
            environment["MEMHINT_LAB_HOST_MIB"] = str(memory // MIB)
            enter = compute.host.enter_argv() if compute.host else []
            return [*enter, python, str(PROGRAMS / "nova_compute.py"), *configuration], environment
        raise StateError(f"no service {name}: there are {', '.join(self.services)}")

    def _wait_for_api(self, name: str) -> None:
        (api,) = (api for api in APIS if api.name == name)

        def answers() -> bool:
            self._must_live(name)
            try:
                _DIRECT.open(self.network.url(api.port), timeout=30)
            except urllib.error.HTTPError as answer:
                return answer.code < 500
            except OSError:
                return False
            return True

        wait_for(answers, READY, f"{name} to answer", 0.2)

    def _must_live(self, name: str) -> None:
        if not self.processes.alive(name):
            raise ServiceFailed(f"{name} has ended:\n{self.processes.tail(name)}")

    def wait_for_computes(self) -> None:
        """Wait until Nova knows every compute and Placement knows how much memory each has."""
        wanted = {one.name for one in self.computes}

        def known() -> bool:
            for name in self.services:
                self._must_live(name)
            try:
                # Not the details: for those Nova asks each compute, which may not answer yet.
                there = {one.name for one in self.cloud.compute.hypervisors(details=False) if one.state == "up"}
                return wanted <= there and all(self.inventory(one) for one in self.computes)
            except HttpException:
                return False  # Nova's API is there before all that it needs

        wait_for(known, READY, f"{', '.join(sorted(wanted))} to be up", 0.5)

    def inventory(self, compute: Compute) -> dict[str, Any] | None:
        """Placement's MEMORY_MB inventory of a compute: `total`, `reserved`, `allocation_ratio`, …"""
        answer = self.cloud.placement.get(f"/resource_providers/{compute.uuid}/inventories/MEMORY_MB")
        return dict(answer.json()) if answer.status_code == 200 else None

    # ---- VMs ----

    def boot(
        self, name: str, flavor: str = images.FLAVOR, host: str | None = None, wait: bool = True, **more: Any
    ) -> Vm:
        """A new VM; with `wait`, one whose workload answers.

        :param host: the compute that it must go to
        :raises ServerFailed: Nova could not place or start it
        """
        compute = self.cloud.compute
        chosen: dict[str, Any] = {"host": host, **more} if host else more
        made = compute.create_server(
            name=name,
            image_id=compute_image(self.cloud),
            flavor_id=compute.find_flavor(flavor, ignore_missing=False).id,
            networks="none",
            **chosen,
        )
        vm = Vm(self, made.id)
        if wait:
            vm.wait("ACTIVE")
            if vm.compute.host is not None:
                vm.ready()
        return vm

    # ---- inside ----

    def _database_place(self) -> ServerDirectory:
        return ServerDirectory(self.directory / "mariadb", self.processes.cgroup.paths)

    def _rabbitmq(self) -> RabbitMQ:
        if self._broker is not None:
            return self._broker
        rights = [(_BROKER_USER, _BROKER_USER, ".*", ".*", ".*"), *bus_users.rights([c.name for c in self.computes])]
        place = ServerDirectory(self.directory / "rabbitmq", self.processes.cgroup.paths)
        self._broker = RabbitMQ(definitions(rights), place, "lab")
        return self._broker

    def _move_keystone(self) -> None:
        database = MariaDB(self._database_place())
        here = self.network.url(KEYSTONE.port, KEYSTONE.path)
        database.sql(f"UPDATE endpoint SET url = REPLACE(url, '{schema.HERE}', '{here}')", "keystone")

    def _upload(self) -> None:
        line = _COMMAND_LINE + ("" if self.lab.record.accel == "kvm" else f" {CLOCK}")
        images.upload(self.cloud, self.lab.image(self.lab.kernel, self.lab.agent), line, self.directory / "data")
        images.flavor(self.cloud)

    @staticmethod
    def _each(do: Callable[[str], None], names: Iterable[str]) -> None:
        with at_once() as pool:
            for done in [pool.submit(do, name) for name in names]:
                done.result()


def compute_image(cloud: Connection) -> str:
    """The id of the guest's image."""
    return str(cloud.image.find_image(images.IMAGE, ignore_missing=False).id)
