"""A small Linux guest under QEMU: an initramfs made on the fly, QMP and the guest agent.

The guest is busybox, the agent with its libraries, and the kernel's virtio modules if it
has them as modules. It needs no network, no disk image and no KVM.
"""

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
from lab.emulated_cpu import EMULATED_CPU

MODULES = (
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_balloon",
    "virtio_console",
    "virtio_blk",
)

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev 2>/dev/null
mount -t proc proc /proc; mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run /tmp /var/run; mount -t tmpfs tmp /tmp
for m in $(cat /modules/order 2>/dev/null); do insmod /modules/$m 2>/dev/null; done
for i in 1 2 3 4 5; do port=$(ls /dev/vport*p1 2>/dev/null) && break; sleep 1; done
echo 0 > /proc/sys/kernel/printk_ratelimit
(while :; do /bin/qemu-ga -m virtio-serial -p $port -t /run @AGENT_ARGS@; sleep 1; done) &
echo GUEST-READY
while :; do sleep 1000; done
"""


def _cpio(entries):
    """The entries, (name, mode, bytes), as a newc archive."""
    out = bytearray()
    for ino, (name, mode, data) in enumerate(entries + [("TRAILER!!!", 0, b"")], 1):
        fields = (ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def _libraries(binary):
    text = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    return [Path(p) for p in re.findall(r"(/\S+) \(0x", text)]


def initramfs(agent, busybox, modules=None, agent_args=""):
    """modules: a directory with the kernel's modules, searched for those of virtio."""
    dirs, files = {"bin", "dev", "proc", "sys", "modules"}, []

    def add(name, data, mode=0o755):
        parent = os.path.dirname(name)
        while parent:
            dirs.add(parent)
            parent = os.path.dirname(parent)
        files.append((name, 0o100000 | mode, data))

    add("init", INIT.replace("@AGENT_ARGS@", agent_args).encode())
    add("bin/busybox", Path(busybox).read_bytes())
    add("bin/qemu-ga", Path(agent).read_bytes())
    for lib in _libraries(agent):
        add(str(lib).lstrip("/"), lib.read_bytes())
    order = []
    for name in MODULES if modules else ():
        for path in Path(modules).rglob(name + ".ko"):
            add("modules/" + path.name, path.read_bytes(), 0o644)
            order.append(path.name)
    add("modules/order", " ".join(order).encode(), 0o644)
    return _cpio([(d, 0o040755, b"") for d in sorted(dirs)] + files)


class Error(Exception):
    def __init__(self, error):
        super().__init__(f"{error['class']}: {error['desc']}")
        self.cls, self.desc = error["class"], error["desc"]


class Connection:
    """One line of JSON at a time over a unix socket."""

    def __init__(self, path, timeout=60, alive=None):
        end = time.monotonic() + timeout
        while True:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            try:
                self.sock.connect(str(path))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                self.sock.close()
                if time.monotonic() > end or (alive and alive.poll() is not None):
                    raise
                time.sleep(0.05)
        self.file = self.sock.makefile("rb")

    def send(self, name, **arguments):
        request = {"execute": name}
        if arguments:
            request["arguments"] = {k.replace("_", "-"): v for k, v in arguments.items()}
        self.sock.sendall(json.dumps(request).encode() + b"\n")

    def receive(self):
        while True:
            line = self.file.readline()
            if not line:
                raise ConnectionError("closed by the other side")
            message = json.loads(line.lstrip(b"\xff"))
            if "error" in message:
                raise Error(message["error"])
            if "return" in message:
                return message["return"]

    def call(self, name, **arguments):
        self.send(name, **arguments)
        return self.receive()

    def close(self):
        self.file.close()
        self.sock.close()


class Guest:
    def __init__(self, qemu, kernel, initrd, memory=512, machine="pc", disk_mib=0, extra=(), append=""):
        self.dir = Path(tempfile.mkdtemp(prefix="memhint-guest-"))
        (self.dir / "initrd").write_bytes(initrd)
        args = [
            str(qemu),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-machine",
            machine,
            "-accel",
            "tcg",
            "-cpu",
            EMULATED_CPU,
            "-m",
            str(memory),
            "-kernel",
            str(kernel),
            "-initrd",
            str(self.dir / "initrd"),
            "-append",
            f"console=ttyS0 quiet panic=-1 {append}",
            "-no-reboot",
            "-serial",
            f"file:{self.dir}/console",
            "-qmp",
            f"unix:{self.dir}/qmp,server=on,wait=off",
            "-device",
            "virtio-balloon-pci,id=balloon,free-page-reporting=on",
            "-device",
            "virtio-serial-pci,id=ser",
            "-chardev",
            f"socket,id=qga,path={self.dir}/qga,server=on,wait=off",
            "-device",
            "virtserialport,bus=ser.0,chardev=qga,name=org.qemu.guest_agent.0",
            *extra,
        ]
        if disk_mib:
            with open(self.dir / "disk", "wb") as f:
                f.write(os.urandom(1 << 20) * disk_mib)
            args += ["-drive", f"file={self.dir}/disk,format=raw,if=none,id=d", "-device", "virtio-blk-pci,drive=d"]
        self.log = open(self.dir / "qemu.log", "wb")
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self.monitor = Connection(self.dir / "qmp", alive=self.process)
        except OSError as error:
            self.process.kill()
            raise RuntimeError((self.dir / "qemu.log").read_text(errors="replace")) from error
        self.monitor.call("qmp_capabilities")
        self.agent = None

    def wait_agent(self, timeout=120):
        end = time.monotonic() + timeout
        while b"GUEST-READY" not in (self.dir / "console").read_bytes():
            if self.process.poll() is not None or time.monotonic() > end:
                raise TimeoutError((self.dir / "console").read_text(errors="replace")[-2000:])
            time.sleep(0.2)
        return self.connect_agent(max(5, end - time.monotonic()))

    def connect_agent(self, timeout=60):
        if self.agent:
            self.agent.close()
        self.agent = Connection(self.dir / "qga", timeout=timeout)
        self.agent.call("guest-sync", id=int(time.monotonic() * 1000))
        return self.agent

    def shell(self, command, timeout=120):
        """Runs a command in the guest, returns its output."""
        pid = self.agent.call("guest-exec", path="/bin/sh", arg=["-c", command], capture_output=True)["pid"]
        end = time.monotonic() + timeout
        while True:
            status = self.agent.call("guest-exec-status", pid=pid)
            if status["exited"]:
                return base64.b64decode(status.get("out-data", "")).decode(errors="replace")
            if time.monotonic() > end:
                raise TimeoutError(command)
            time.sleep(0.1)

    def rss(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+)", text, re.M).group(1)) << 10

    def stop(self):
        for connection in (self.agent, self.monitor):
            if connection:
                connection.close()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()
