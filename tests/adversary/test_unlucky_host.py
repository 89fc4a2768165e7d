"""A host on which things go wrong: the store is kept by somebody, damaged, or read by another clock. A real agent."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memhint.objects.policy import Origin
from memhint.objects.report import Report
from memhint.store import Store, open_store
from tests.functional import one_agent
from tests.unit.builders import WEB
from tests.waiting import until

PATIENCE = 180.0  # seconds; never reached unless a test fails
KEPT_PERIODS = 6


class Host:
    """An agent with one VM, whose store is a file."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "agent.db"
        self.log = directory / "agent.agent.log"
        self.config = directory / "agent.conf"
        self.config.write_text(
            f"[DEFAULT]\nhost_name = host-a\nperiod = 1\n[store]\nurl = sqlite:///{self.file}\n"
            f"[virt]\nuri = test:///default\nrun_dir = {directory}/run\n[guest]\ninterval = 1\n[ladder]\nrungs =\n"
        )
        self.agent: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.agent = one_agent.start(self.config, "agent")
        until(self.file.exists)

    def stop(self) -> int:
        assert self.agent is not None
        self.agent.send_signal(signal.SIGTERM)
        return self.agent.wait(PATIENCE)

    def close(self) -> None:
        if self.agent is not None and self.agent.poll() is None:
            self.stop()

    def store(self) -> Store:
        return open_store(f"sqlite:///{self.file}", host="host-a", create=False)

    def newest(self) -> Report | None:
        store = self.store()
        try:
            return store.reports.newest("host-a")
        finally:
            store.close()

    def attempts(self) -> int:
        """How many reports the store did not take."""
        return self.log.read_text().count("store did not take report")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    made.start()
    yield made
    made.close()


def reported(host: Host) -> Report | None:
    try:
        return host.newest()
    except Exception:  # noqa: BLE001  the tables are being made
        return None


def test_who_keeps_the_store_keeps_no_report_from_being_made(host: Host) -> None:
    until(lambda: reported(host))
    before = host.newest()
    assert before is not None
    other = sqlite3.connect(host.file, isolation_level=None, timeout=PATIENCE)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    until(lambda: host.attempts() >= KEPT_PERIODS)
    assert time.monotonic() - began < 3 * KEPT_PERIODS  # three periods each at most, as long as a report counts
    other.execute("COMMIT")
    other.close()
    until(lambda: (newest := host.newest()) is not None and newest.sequence > before.sequence + KEPT_PERIODS)
    assert host.stop() == 0


@pytest.mark.parametrize("column", ["key", "value", "origin"])
def test_one_damaged_row_survives_a_restart_without_letting_anything_go(host: Host, column: str) -> None:
    until(lambda: reported(host))
    store = host.store()
    store.policies.set_operator(WEB, {"class": "guaranteed", "guest_actions": "deny"})
    store.close()
    assert host.stop() == 0
    with sqlite3.connect(host.file) as connection:
        connection.execute(f"UPDATE policy SET {column} = 'perhaps' WHERE key = 'class'")
    before = host.newest()
    host.start()
    until(lambda: (newest := host.newest()) is not None and before is not None and newest.epoch != before.epoch)
    newest = host.newest()
    assert newest is not None
    (demand,) = newest.plan.demands
    (vm,) = newest.domains
    assert demand.demand == demand.assigned
    assert (vm.policy.overcommit, vm.policy.guest_actions) == (False, False)
    assert vm.policy.settings["guest_actions"].origin in (Origin.DEFAULT, Origin.OPERATOR)
    assert any(gap.what == "policy" and "perhaps" in gap.detail for gap in vm.observation.gaps)


def test_a_reload_whose_log_cannot_be_written_leaves_the_agent_as_it_was(host: Host) -> None:
    before = host.config.read_text()
    host.config.write_text(before.replace("period = 1", "period = 1\nlog_dir = /nowhere/to"))
    assert host.agent is not None
    host.agent.send_signal(signal.SIGHUP)
    until(lambda: "was not reloaded, the old one holds: [DEFAULT] log_dir" in host.log.read_text())
    host.config.write_text(before)
    host.agent.send_signal(signal.SIGHUP)
    until(lambda: "configuration reloaded" in host.log.read_text())
    assert host.stop() == 0
