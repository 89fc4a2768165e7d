"""Run a qemu-ga on a unix socket, against the machine's own files or made-up ones."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PARAMS = "sys/module/page_reporting/parameters"
PATIENCE = 60  # seconds: it only bounds a failure


class AgentError(Exception):
    def __init__(self, error):
        super().__init__(f"{error['class']}: {error['desc']}")
        self.cls, self.desc = error["class"], error["desc"]


class FakeRoot:
    """Files as a patched kernel has them below /proc and /sys."""

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="memhint-root-"))
        self.write("proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 524288 kB\n")
        self.write(
            "proc/pressure/memory",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        )
        self.vmstat(
            nr_free_pages=12000,
            nr_free_reported=9216,
            page_report_pages=50000,
            page_report_batch=12,
            page_report_fail=0,
            pgsteal_file=0,
            pgsteal_anon=0,
            pswpout=0,
        )
        self.write("proc/buddyinfo", "Node 0, zone DMA32 10 4 2 1 1 1 1 1 1 2 10\n")
        self.write("proc/zoneinfo", "Node 0, zone    DMA32\n        spanned  16384\n  start_pfn:           0\n")
        self.write(
            "proc/pagetypeinfo",
            "Pages per block:  512\nNumber of blocks type Unmovable Movable Reclaimable HighAtomic CMA Isolate\n"
            "Node 0, zone DMA32 8 24 0 0 0 0\n",
        )
        for name, value in (
            ("page_reporting_order", "9"),
            ("page_reporting_delay_ms", "2000"),
            ("enabled", "Y"),
            ("flush_pages", "0"),
        ):
            self.write(f"{PARAMS}/{name}", value + "\n")
        self.write("sys/fs/cgroup/memory.reclaim", "")
        self.write("proc/sys/vm/compact_memory", "")

    def write(self, path, text):
        file = self.dir / path
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(file.name + ".new")
        new.write_text(text)
        new.replace(file)

    def vmstat(self, **values):
        self.values = {**getattr(self, "values", {}), **values}
        self.write("proc/vmstat", "".join(f"{k} {v}\n" for k, v in self.values.items()))

    def read(self, path):
        """The first line; unlike sysfs a file keeps what was behind a shorter value."""
        return (self.dir / path).read_text().partition("\n")[0]

    def snapshot(self):
        return {
            str(p.relative_to(self.dir)): p.read_bytes()
            for p in self.dir.rglob("*")
            if p.is_file() and not p.is_symlink()
        }

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class Agent:
    def __init__(self, binary, args=(), root=None, env=None, state=None):
        self.dir = Path(tempfile.mkdtemp(prefix="memhint-agent-"))
        self.dir.chmod(0o777)
        self.state = state or self.dir
        env = dict(os.environ, **(env or {}))
        if root:
            env["QGA_LINUX_ROOT"] = str(root.dir)
        self.log = open(self.dir / "log", "wb")
        self.process = subprocess.Popen(
            [str(binary), "-m", "unix-listen", "-p", str(self.dir / "sock"), "-t", str(self.state), *args],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        self.sock = None
        self.connect()

    def connect(self):
        end = time.monotonic() + PATIENCE
        while True:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(PATIENCE)
            try:
                self.sock.connect(str(self.dir / "sock"))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                self.sock.close()
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.02)
        self.file = self.sock.makefile("rb")

    def raw(self, data):
        self.sock.sendall(data)

    def receive(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("the agent closed the connection")
        return json.loads(line.lstrip(b"\xff"))

    def call(self, name, **arguments):
        request = {"execute": name}
        if arguments:
            request["arguments"] = {k.replace("_", "-"): v for k, v in arguments.items()}
        self.raw(json.dumps(request).encode() + b"\n")
        answer = self.receive()
        if "error" in answer:
            raise AgentError(answer["error"])
        return answer["return"]

    def run_state(self):
        """One letter, as /proc has it: "R" is running, or put off."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2][0]

    def stop(self, kill=False):
        """Returns the exit status; kill spares the file systems a thaw.

        The connection stays until then: qemu-ga quits in its signal handler, which blocks
        for ever if the signal comes while GLib is busy, as it is with a connection that ends.
        """
        end = time.monotonic() + PATIENCE
        while True:
            time.sleep(0.02)
            # Asleep in poll(); one that was only put off is still to run.
            if self.run_state() != "R" or time.monotonic() > end:
                break
        self.process.kill() if kill else self.process.terminate()
        try:
            status = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.file.close()
            self.sock.close()
            self.log.close()
            shutil.rmtree(self.dir, ignore_errors=True)
        return status
