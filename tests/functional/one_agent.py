"""A whole agent with everything but libvirt: one VM whose process is real and whose guest is made up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memhint.agent import build, build_virt, service
from memhint.agent.lock import HostLock
from memhint.conf.load import load
from memhint.conf.log import set_up
from memhint.objects.domain import DomainFacts, DomainState
from memhint.objects.gap import Gap
from memhint.objects.units import GIB
from memhint.virt.domain_xml import Definition
from memhint.virt.stats import DomainStats
from tests.functional.processes import ROOT
from tests.unit.builders import WEB
from tests.unit.guest.fake_reclaim import FakeGuest

# All of it in one call: how many more it takes would be a matter of how busy the machine is, as a call's time is real.
GUEST = FakeGuest(speed=1024 * GIB)
FILL = "fill"  # a file beside the configuration: the guest reads so many bytes into its page cache, once


class _Definitions:
    def __init__(self, *_: object) -> None:
        """Nothing is asked."""

    def read(self, uuids: Iterable[str], now: float) -> tuple[dict[str, Definition], dict[str, Gap]]:
        facts = DomainFacts(memory=GIB, project="blue", balloon=True, reporting_offered=True, guest_agent=True)
        return dict.fromkeys(uuids, Definition(facts)), {}

    def invalidate(self, uuid: str) -> None:
        """Nothing changes."""

    def inherit(self, before: object) -> None:
        """Nothing is remembered."""


class _Connections:
    def __init__(self, *_: object) -> None:
        """None is needed."""

    @contextmanager
    def conversation(self, uuid: str) -> Iterator[FakeGuest]:
        assert uuid == WEB
        wished = Path(sys.argv[1]).with_name(FILL)
        own = wished.with_suffix(f".{threading.get_ident()}")
        with suppress(FileNotFoundError):  # of two threads one gets it
            wished.rename(own)
            GUEST.cold += int(own.read_text())
            own.unlink()
        yield GUEST

    def close(self) -> None:
        """None is open."""


def start(config: Path, name: str) -> subprocess.Popen[bytes]:
    """The agent of a configuration, as a process."""
    with config.with_suffix(f".{name}.log").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.functional.one_agent", str(config)], cwd=ROOT, stdout=out, stderr=out
        )


def main(config: str) -> int:
    conf = load([config])
    set_up(conf, "agent")
    vm = subprocess.Popen(["sh", "-c", "read forever", "vm", WEB], stdin=subprocess.PIPE)
    run = Path(conf.virt.run_dir)
    run.mkdir(exist_ok=True)
    (run / "web-1.pid").write_text(str(vm.pid))
    stats = DomainStats(WEB, "web-1", DomainState.RUNNING, {})
    build.read_stats = lambda _: [stats]  # type: ignore[assignment]
    # Tests that run side by side have hosts of the same name, each of which is another one.
    service.HostLock = lambda host: HostLock(f"{host} of {config}")  # type: ignore[assignment, misc]
    build_virt.Definitions = _Definitions  # type: ignore[assignment, misc]
    build_virt.AgentConnections = _Connections  # type: ignore[assignment, misc]
    try:
        return service.run(conf)
    finally:
        vm.kill()
        vm.wait()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    raise SystemExit(main(sys.argv[1]))
