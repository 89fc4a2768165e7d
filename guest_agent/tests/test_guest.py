#!/usr/bin/env python3
"""The agent in a real guest, under a QEMU that counts: do guest and host agree?

  test_guest.py --qemu QEMU --kernel BZIMAGE [--modules DIR] --busybox BUSYBOX --agent QEMU-GA

Works with a patched guest kernel and with a stock one, and tests what each of them can.
"""

import argparse
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "qemu/tests")]
import names
from guest import Error, Guest, initramfs

GET, SET, RECLAIM, MEMINFO = (names.name(n) for n in ("get", "set", "reclaim", "meminfo"))
MIB = 1 << 20


def check(name, ok, detail=""):
    print(f"{'ok' if ok else 'NOT OK'}  {name}  {detail}", flush=True)
    if not ok:
        sys.exit(1)


def timed(guest, name, **arguments):
    begin = time.monotonic()
    answer = guest.agent.call(name, **arguments)
    return answer, time.monotonic() - begin


def refused(guest, **arguments):
    try:
        guest.agent.call(SET, **arguments)
    except Error as error:
        return str(error)
    return None


def look(guest):
    """What the agent says of reporting; of page flags as often as it takes to come to the end of the memory."""
    first = answer = guest.agent.call(GET, max_scan_ms=500)
    while answer["more"]:
        answer = guest.agent.call(GET, cursor=answer["scan"]["next-pfn"], max_scan_ms=500)
        first["reported"] += answer["reported"]
    if "reported" in first:
        first["unreported"] = first["reportable"] - min(first["reportable"], first["reported"])
    return first


def host(guest):
    return guest.monitor.call("query-balloon-reporting")


def idle(guest):
    """Waits until the guest has reported all it will."""
    last, quiet = -1, 0
    while quiet < 3:
        now = host(guest)["reported"]["bytes"]
        quiet = quiet + 1 if now == last else 0
        last = now
        time.sleep(2.5)
    return look(guest)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("qemu", "kernel", "busybox", "agent"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--modules", help="directory of the kernel's modules")
    args = parser.parse_args()
    initrd = initramfs(args.agent, args.busybox, args.modules)
    with Guest(args.qemu, args.kernel, initrd, memory=1024, disk_mib=300) as guest:
        guest.wait_agent()
        version = guest.shell("uname -r").strip()
        info = idle(guest)
        source, settable = info["source"], info["settable"]
        check(f"{version}: source and settings", source in ("kernel", "kpageflags"), f"{source}, {settable}")
        check("negotiated", info["negotiated"])
        check(
            "nearly all free memory is reported at idle",
            info["unreported"] < 32 * MIB,
            f"free {info['free'] // MIB}, reported {info['reported'] // MIB}, unreported {info['unreported'] // MIB} MiB",
        )
        if source == "kernel":
            check(
                "guest and host agree to the byte",
                info["total-reported"] == host(guest)["reported"]["bytes"] == host(guest)["discarded"]["bytes"],
                f"{info['total-reported']} bytes",
            )

        if source == "kernel":
            # hide the counters, and it has to find the same in the page flags
            guest.shell("grep -v nr_free_reported /proc/vmstat > /tmp/vmstat; mount --bind /tmp/vmstat /proc/vmstat")
            begin = time.monotonic()
            flags = look(guest)
            took = time.monotonic() - begin
            guest.shell("umount /proc/vmstat")
            check(
                "page flags say the same as the counters",
                flags["source"] == "kpageflags" and flags["reported"] == look(guest)["reported"],
                f"{flags['reported']} bytes, {took * 1000:.0f} ms, {flags['scan']['bytes-read']} bytes read",
            )

        # page cache, which reporting alone leaves
        guest.shell("(sleep 9999 < /dev/vda > /dev/null 2>&1 &); cat /dev/vda > /dev/null")
        buffers = guest.agent.call(MEMINFO)["buffers"]
        rss = guest.rss()
        check("page cache fills the guest", buffers > 250 * MIB, f"{buffers // MIB} MiB, RSS {rss // MIB} MiB")
        want, calls, slowest, got = buffers, 0, 0.0, 0
        while True:
            answer, took = timed(guest, RECLAIM, bytes=want, psi_limit=60)
            calls, slowest, got, want = calls + 1, max(slowest, took), got + answer["reclaimed"], answer["remaining"]
            if not answer["more"]:
                break
        check(
            "and is reclaimed",
            got > 0.75 * buffers and answer["stop"] in ("done", "exhausted"),
            f"{got // MIB} MiB in {calls} calls, slowest {slowest:.2f} s, stop {answer['stop']}, "
            f"compaction {answer['compaction']}, pressure {answer['pressure']:.1f} %",
        )
        check("no call takes two seconds", slowest < 2)
        check("without swapping", answer["swapped-out"] == 0)

        if "flush" in settable:
            answer, took = timed(guest, SET, flush=900 * MIB)
            low = guest.rss()
            check(
                "flush reports it at once",
                answer["flushed"] > 100 * MIB and not answer["more"],
                f"{answer['flushed'] // MIB} MiB in {took:.3f} s, RSS {low // MIB} MiB",
            )
            check("paused", guest.agent.call(SET, enabled=False)["enabled"] is False)
            before = host(guest)["reported"]["bytes"]
            guest.shell("dd if=/dev/zero of=/tmp/f bs=1M count=200 2>/dev/null; rm /tmp/f")
            time.sleep(5)
            check(
                "nothing is reported while paused",
                host(guest)["reported"]["bytes"] == before,
                f"unreported {look(guest)['unreported'] // MIB} MiB",
            )
            error = refused(guest, flush=MIB)
            check("flush is refused while paused", error and "off" in error, error)
            guest.agent.call(SET, enabled=True, delay_ms=200)
            time.sleep(4)
            check(
                "resumed",
                host(guest)["reported"]["bytes"] > before + 100 * MIB,
                f"unreported {look(guest)['unreported'] // MIB} MiB",
            )
        else:
            error = refused(guest, order=8, enabled=False)
            check("what the kernel does not have is refused", error and "does not support" in error, error)
            check("and changes nothing", look(guest)["order"] == info["order"])
        error = refused(guest, order=info["max-order"] + 1)
        check("order out of range is refused", error and "from 0 to" in error, error)
        check("order in range is set", guest.agent.call(SET, order=8)["order"] == 8)
        guest.agent.call(SET, order=9)
        idle(guest)
        check("the host has it back", guest.rss() < rss - 150 * MIB, f"RSS {rss // MIB}, now {guest.rss() // MIB} MiB")
        info, took = timed(guest, GET, max_scan_ms=500)
        check(
            "cost of the getter",
            took < 1,
            f"{took * 1000:.0f} ms, {info.get('scan', {}).get('bytes-read', 0)} bytes read",
        )
        counted = host(guest)
        check(
            "the host discarded all it was told about",
            counted["discarded"] == counted["reported"],
            f"{counted['discarded']['bytes'] // MIB} MiB",
        )


if __name__ == "__main__":
    main()
