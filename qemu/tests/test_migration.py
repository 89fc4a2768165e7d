#!/usr/bin/env python3
"""Live migration between the patched QEMU and another one of the same release, both ways.

  test_migration.py --qemu PATCHED --other UNPATCHED --kernel BZIMAGE --busybox BUSYBOX --agent QEMU-GA

The guest goes on working and reporting after it was migrated, and the counters, which are
not in the stream, begin at 0.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from guest import Error, Guest, initramfs

MACHINE = "pc-i440fx-10.0"


def counters(guest):
    """What the host counted, None if this QEMU cannot."""
    try:
        return guest.monitor.call("query-balloon-reporting")
    except Error as error:
        if error.cls != "CommandNotFound":
            raise
        return None


def migrate(source, target, sock):
    source.monitor.call("migrate-set-parameters", max_bandwidth=1 << 30)
    source.monitor.call("migrate", uri=f"unix:{sock}")
    begin = time.monotonic()
    while True:
        status = source.monitor.call("query-migrate")
        if status["status"] == "completed":
            return status
        if status["status"] in ("failed", "cancelled") or time.monotonic() - begin > 120:
            raise RuntimeError(json.dumps(status) + (target.dir / "qemu.log").read_text())
        time.sleep(0.05)


def settle(guest):
    """Waits until the guest has reported what it can."""
    last = -1
    while guest.rss() != last:
        last = guest.rss()
        time.sleep(5)
    return last


def check(name, ok, detail=""):
    print(f"{'ok' if ok else 'NOT OK'}  {name}  {detail}")
    if not ok:
        sys.exit(1)


def one_way(name, source_qemu, target_qemu, args, initrd):
    with tempfile.TemporaryDirectory() as tmp:
        sock = f"{tmp}/migrate"
        with Guest(source_qemu, args.kernel, initrd, machine=MACHINE) as source:
            source.wait_agent()
            settle(source)
            source.shell("echo before > /tmp/mark")
            before = counters(source)
            with Guest(
                target_qemu, args.kernel, initrd, machine=MACHINE, extra=("-incoming", f"unix:{sock}")
            ) as target:
                status = migrate(source, target, sock)
                after = counters(target)
                if after:
                    check(
                        f"{name}: counters begin at 0",
                        after["reported"]["bytes"] == 0 and after["enabled"],
                        f"source had {before and before['reported']['bytes']}",
                    )
                if before:
                    check(
                        f"{name}: source counted",
                        before["reported"]["bytes"] > 0 and before["reported"] == before["discarded"],
                        json.dumps(before["discarded"]),
                    )
                target.connect_agent()
                check(
                    f"{name}: guest goes on",
                    target.shell("cat /tmp/mark") == "before\n",
                    f"{status['total-time']} ms, downtime {status['downtime']} ms",
                )
                # use 200 MiB and free them: they have to be reported on the target
                target.shell("dd if=/dev/urandom of=/tmp/fill bs=1M count=200 2>/dev/null")
                full = target.rss()
                target.shell("rm /tmp/fill")
                low = settle(target)
                check(
                    f"{name}: guest reports on the target",
                    full - low > 150 << 20,
                    f"RSS {full >> 20} MiB, then {low >> 20} MiB",
                )
                if after:
                    after = counters(target)
                    check(
                        f"{name}: and it is counted",
                        after["discarded"]["bytes"] > 150 << 20 and after["negotiated"],
                        json.dumps(after["discarded"]),
                    )


def state_format(qemu):
    """The format of what the balloon puts into the stream."""
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(
            [qemu, "-machine", MACHINE, "-display", "none", "-nodefaults", "-dump-vmstate", f"{tmp}/v"],
            check=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        dump = json.loads(Path(tmp, "v").read_text())
    return {k: v for k, v in dump.items() if "balloon" in k}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("qemu", "other", "kernel", "busybox", "agent"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--modules", help="directory of the kernel's modules")
    args = parser.parse_args()
    initrd = initramfs(args.agent, args.busybox, args.modules)
    ours = state_format(args.qemu)
    check("the format of the stream is the same", ours and ours == state_format(args.other), ", ".join(ours))
    one_way("patched to patched", args.qemu, args.qemu, args, initrd)
    one_way("patched to unpatched", args.qemu, args.other, args, initrd)
    one_way("unpatched to patched", args.other, args.qemu, args, initrd)


if __name__ == "__main__":
    main()
