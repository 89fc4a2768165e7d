#!/usr/bin/env python3
"""The extended qemu-ga over its socket, against made-up files. Needs no guest.

test_agent.py QEMU-GA [unittest arguments]
"""

import os
import sys
import tempfile
import threading
import time
import unittest
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import names
from agent import PARAMS, Agent, AgentError, FakeRoot

GET, SET, RECLAIM, MEMINFO = (names.name(n) for n in ("get", "set", "reclaim", "meminfo"))
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
NOBODY = 65534
BINARY = None
TIME_LIMIT = 1.5  # seconds that a call spends at most: the agent's own clock runs on while the machine puts it off
TRIES = 10


class AgentTest(unittest.TestCase):
    def setUp(self):
        self.root = FakeRoot()
        self.addCleanup(self.root.remove)

    def agent(self, *args, kill=False, **kwargs):
        agent = Agent(BINARY, args, root=self.root, **kwargs)
        self.addCleanup(agent.stop, kill)
        return agent

    def refused(self, agent, name, text, cls="GenericError", **arguments):
        before = self.root.snapshot()
        with self.assertRaises(AgentError) as caught:
            agent.call(name, **arguments)
        self.assertEqual(caught.exception.cls, cls)
        self.assertIn(text, caught.exception.desc)
        self.assertEqual(self.root.snapshot(), before, "something was written")

    def compact(self, agent, size):
        """Reclaims `size` bytes, and starts a compaction that does not end, though the call does; the last answer.

        An agent that was put off until its time was up says so, and is called again, as by a client.
        """
        for _ in range(TRIES):
            begin = time.monotonic()
            answer = agent.call(RECLAIM, bytes=size, time_limit_ms=1000)
            self.assertLess(time.monotonic() - begin, 15)
            if answer["compaction"] != "none" or not answer["more"]:
                break
            size = answer["remaining"]
        return answer

    def scan(self, agent, ms):
        """Bytes reported, as a client gets them that calls until there is no more."""
        cursor, total, calls = 0, 0, 0
        while True:
            answer = agent.call(GET, cursor=cursor, max_scan_ms=ms)
            total += answer["reported"]
            calls += 1
            if not answer["more"]:
                return total
            self.assertGreater(answer["scan"]["next-pfn"], cursor)
            cursor = answer["scan"]["next-pfn"]
            self.assertLess(calls, 20)

    def test_probe(self):
        commands = {c["name"]: c["enabled"] for c in self.agent().call("guest-info")["supported_commands"]}
        for name in (GET, SET, RECLAIM, MEMINFO):
            self.assertIs(commands.get(name), True)

    def test_probe_blocked(self):
        agent = self.agent("-b", f"{SET},{RECLAIM}")
        commands = {c["name"]: c["enabled"] for c in agent.call("guest-info")["supported_commands"]}
        self.assertEqual([commands[n] for n in (GET, SET, RECLAIM, MEMINFO)], [True, False, False, True])
        # the class is that of an unknown command: only the words tell the two apart
        self.refused(agent, SET, f"Command {SET} has been disabled", cls="CommandNotFound", order=8)
        self.refused(agent, RECLAIM, f"Command {RECLAIM} has been disabled", cls="CommandNotFound", bytes=MIB)
        self.refused(agent, "guest-x", "The command guest-x has not been found", cls="CommandNotFound")

    def test_frozen(self):
        """An agent that finds its guest frozen refuses all of them."""
        with tempfile.TemporaryDirectory() as state:
            Path(state, "qga.state.isfrozen").touch()
            agent = self.agent(kill=True, state=state)
            agent.call("guest-ping")
            for name, arguments in ((SET, {"order": 8}), (RECLAIM, {"bytes": MIB}), (GET, {}), (MEMINFO, {})):
                self.refused(agent, name, "disabled", cls="CommandNotFound", **arguments)

    def test_range(self):
        agent = self.agent()
        for arguments in (
            {"order": 11},
            {"order": -1},
            {"order": 1 << 32},
            {"delay_ms": 3600001},
            {"flush": 0},
            {"flush": PAGE - 1},
            {"flush": (1 << 30) + 1},
            {"flush": 1 << 63},
            {"enabled": True, "order": 11},
            {"order": 9, "flush": 0},
        ):
            self.refused(agent, SET, next(k.replace("_", "-") for k in reversed(arguments)), **arguments)
        self.refused(agent, SET, "no setting")
        self.refused(agent, RECLAIM, "bytes", bytes=(1 << 30) + 1)
        self.refused(agent, RECLAIM, "psi-limit", bytes=MIB, psi_limit=1e300)
        self.refused(agent, GET, "max-scan-ms", max_scan_ms=1501)
        self.refused(agent, GET, "max-scan-ms", cursor=0)
        self.refused(agent, GET, "max-scan-ms", cursor=0, max_scan_ms=0)

    def test_unknown_argument(self):
        """A client tells an agent of an earlier series by these words."""
        self.refused(self.agent(), GET, "Parameter 'time-limit-ms' is unexpected", time_limit_ms=1)

    def test_scan_is_asked_for(self):
        """What is not asked to look at page flags does not open them: opening this one would block for ever."""
        self.root.values.pop("nr_free_reported")
        self.root.vmstat()
        os.mkfifo(self.root.dir / "proc/kpageflags")
        agent = self.agent()
        for arguments in ({}, {"max_scan_ms": 0}):
            answer = agent.call(GET, **arguments)
            self.assertEqual((answer["source"], answer["more"], answer["free"]), ("none", False, 12000 * PAGE))
            self.assertIn("max-scan-ms", answer["reason"])
            self.assertNotIn("reported", answer)

    def test_without_feature(self):
        for name in ("enabled", "flush_pages", "page_reporting_delay_ms"):
            (self.root.dir / PARAMS / name).unlink()
        agent = self.agent()
        self.assertEqual(agent.call(GET)["settable"], ["order"])
        self.refused(agent, SET, "does not support 'enabled'", order=8, enabled=False)
        self.refused(agent, SET, "does not support 'delay-ms'", order=8, delay_ms=100)
        self.refused(agent, SET, "does not support 'flush'", order=8, flush=MIB)
        self.assertEqual(agent.call(SET, order=8)["order"], 8)

    @unittest.skipIf(os.geteuid(), "needs root to give up being root")
    def test_unprivileged(self):
        self.root.dir.chmod(0o755)
        (self.root.dir / "proc/kpageflags").write_bytes(bytes(16384 * 8))
        (self.root.dir / "proc/kpageflags").chmod(0o400)
        binary = Path(BINARY).resolve()
        with tempfile.TemporaryDirectory() as copy:
            # the agent itself may be where nobody can read it
            os.chmod(copy, 0o755)
            Path(copy, "qemu-ga").write_bytes(binary.read_bytes())
            os.chmod(Path(copy, "qemu-ga"), 0o755)
            with tempfile.TemporaryDirectory() as state:
                os.chown(state, NOBODY, NOBODY)
                wrapper = Path(copy, "run")
                wrapper.write_text(
                    f'#!/bin/sh\nexec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups {copy}/qemu-ga "$@"\n'
                )
                wrapper.chmod(0o755)
                agent = Agent(wrapper, root=self.root, state=state)
                try:
                    self.refused(agent, SET, "Permission denied", order=8)
                    self.refused(agent, SET, "Permission denied", flush=MIB)
                    self.refused(agent, RECLAIM, "Permission denied", bytes=MIB)
                    self.assertEqual(agent.call(GET)["source"], "kernel")
                    self.root.values.pop("nr_free_reported")
                    self.root.vmstat()
                    answer = agent.call(GET, max_scan_ms=500)
                    self.assertEqual(answer["source"], "none")
                    self.assertIn("Permission denied", answer["reason"])
                finally:
                    agent.stop()

    def test_flush_progress(self):
        """The kernel reports in the background; the agent follows what it says is left."""
        agent = self.agent()

        def kernel():
            while self.root.read(f"{PARAMS}/flush_pages") == "0":
                time.sleep(0.01)
            for done in range(1, 5):
                time.sleep(0.02)
                self.root.vmstat(page_report_pages=50000 + done * 512)
                self.root.write(f"{PARAMS}/flush_pages", f"{2048 - done * 512}\n")

        for _ in range(TRIES):
            self.root.vmstat(page_report_pages=50000)
            thread = threading.Thread(target=kernel, daemon=True)
            thread.start()
            begin = time.monotonic()
            answer = agent.call(SET, flush=2048 * PAGE)
            took = time.monotonic() - begin
            thread.join()
            # One that took longer ran out of its time: the kernel or the agent was put off.
            if took < TIME_LIMIT:
                break
        self.assertEqual((answer["flushed"], answer["more"]), (2048 * PAGE, False))

    def test_flush_time(self):
        self.root.write(f"{PARAMS}/flush_pages", "512\n")  # somebody else's, and it does not end
        agent = self.agent()
        begin = time.monotonic()
        answer = agent.call(SET, flush=MIB)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertTrue(answer["more"])
        self.assertEqual(self.root.read(f"{PARAMS}/flush_pages"), "512")

    def test_compaction_outlives_call(self):
        """What compaction does not finish in time goes on, and is waited for later."""
        compact = self.root.dir / "proc/sys/vm/compact_memory"
        compact.unlink()
        os.mkfifo(compact)  # opening it blocks until there is a reader
        agent = self.agent()
        answer = self.compact(agent, MIB)
        self.assertEqual((answer["compaction"], answer["more"], answer["stop"]), ("running", True, "done"))
        self.assertEqual(answer["remaining"], 0)
        agent.call("guest-ping")
        answer = agent.call(RECLAIM, bytes=0, time_limit_ms=100)
        self.assertEqual((answer["compaction"], answer["more"]), ("running", True))
        with open(compact, "rb") as reader:
            self.assertEqual(reader.read(), b"1\n")
        for _ in range(TRIES):
            answer = agent.call(RECLAIM, bytes=0)
            if not answer["more"]:
                break
        self.assertEqual((answer["compaction"], answer["more"]), ("done", False))

    def test_compaction_stops_under_pressure(self):
        compact = self.root.dir / "proc/sys/vm/compact_memory"
        compact.unlink()
        os.mkfifo(compact)
        agent = self.agent()
        self.assertEqual(self.compact(agent, 0)["compaction"], "running")
        self.root.write(
            "proc/pressure/memory",
            "some avg10=60.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        )
        answer = agent.call(RECLAIM, bytes=MIB, psi_limit=50)
        self.assertEqual((answer["stop"], answer["more"], answer["reclaimed"]), ("pressure", False, 0))
        self.assertEqual(answer["compaction"], "stopped")
        self.assertEqual(answer["pressure"], 60)

    def test_pressure_while_reclaiming(self):
        """Stall time that grows faster than the limit stops it, before the average knows."""
        stop = threading.Event()
        written = []

        def stall():
            began = time.monotonic()
            while not stop.is_set():
                written.append(time.monotonic())
                total = int((written[-1] - began) * 1e6)  # all of the time, however seldom it is written
                self.root.write(
                    "proc/pressure/memory",
                    f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n"
                    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
                )
                time.sleep(0.03)

        compact = self.root.dir / "proc/sys/vm/compact_memory"
        compact.unlink()
        os.mkfifo(compact)
        thread = threading.Thread(target=stall)
        thread.start()
        try:
            for _ in range(TRIES):
                agent = self.agent()
                first, begin = len(written), time.monotonic()
                answer = agent.call(RECLAIM, bytes=0, psi_limit=20, time_limit_ms=1500)
                gap = max(end - start for start, end in pairwise([begin, *written[first:], time.monotonic()]))
                pressure = answer["stop"] == "pressure"
                # While the machine puts us off nobody writes, and while it puts the agent off nobody looks: once more.
                if answer["elapsed-ms"] < 1500 if pressure else gap < 0.3:
                    break
        finally:
            stop.set()
            thread.join()
        self.assertEqual(answer["stop"], "pressure")
        self.assertLess(answer["elapsed-ms"], 1500)

    def test_client_loops(self):
        """The loop of a client ends, whatever cursor it is given."""
        self.root.values.pop("nr_free_reported")
        self.root.vmstat()
        (self.root.dir / "proc/kpageflags").write_bytes((1 << 10 | 1 << 3).to_bytes(8, "little") * 16384)
        agent = self.agent()
        # blocks of one page each are smaller than order 9
        self.assertEqual(self.scan(agent, 1), 0)
        self.root.write(f"{PARAMS}/page_reporting_order", "0\n")
        self.assertEqual(self.scan(agent, 500), 16384 * PAGE)

    def test_nothing_there(self):
        for path in ("proc/meminfo", "proc/vmstat", "proc/buddyinfo"):
            (self.root.dir / path).unlink()
        agent = self.agent()
        for name, arguments in ((GET, {}), (SET, {"flush": MIB}), (RECLAIM, {"bytes": MIB}), (MEMINFO, {})):
            self.refused(agent, name, "", **arguments)

    def test_this_machine(self):
        agent = Agent(BINARY)
        self.addCleanup(agent.stop)
        for _ in range(TRIES):  # the machine may put off one call, or two
            begin = time.monotonic()
            answer = agent.call(GET, max_scan_ms=1500)
            took = time.monotonic() - begin
            if took < 2:
                break
        self.assertLess(took, 2)
        self.assertIn(answer["source"], ("kernel", "kpageflags", "none"))
        self.assertGreater(agent.call(MEMINFO)["total"], 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
