#!/usr/bin/env python3
"""Random requests to the agent's memory commands, and random files for them to read.

  fuzz.py QEMU-GA [--seconds 60] [--seed N]

Every request has to be answered, with a return or an error, within two seconds; the agent
must not end; and what it writes has to be a number in range. Use a qemu-ga that was built
with --enable-asan to see more. The seed of a run is printed and reproduces its requests and
its files.
"""

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import names
from agent import PARAMS, Agent, FakeRoot

ARGUMENTS = {
    "get": ("cursor", "max-scan-ms"),
    "set": ("enabled", "order", "delay-ms", "flush"),
    "reclaim": ("bytes", "psi-limit", "compact", "time-limit-ms"),
    "meminfo": (),
}
NUMBERS = (
    0,
    1,
    -1,
    5,
    9,
    10,
    11,
    100,
    1500,
    1501,
    4095,
    4096,
    65536,
    1 << 20,
    1 << 30,
    (1 << 30) + 1,
    3600000,
    3600001,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    1 << 64,
)
FILES = (
    "proc/vmstat",
    "proc/meminfo",
    "proc/buddyinfo",
    "proc/zoneinfo",
    "proc/pressure/memory",
    f"{PARAMS}/page_reporting_order",
    f"{PARAMS}/page_reporting_delay_ms",
    f"{PARAMS}/enabled",
    f"{PARAMS}/flush_pages",
    "sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
    "sys/bus/virtio/drivers/virtio_balloon/virtio0/features",
    "proc/kpageflags",
    "proc/pagetypeinfo",
)


def value(rng):
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(NUMBERS)
    if kind < 0.75:
        return rng.choice((True, False))
    if kind < 0.85:
        return rng.choice((0.5, -0.5, 1e300, -1e300, 1e-300, 99.999, 100.0001))
    return rng.choice((None, "", "Y", "9", [], [1], {}, {"a": 1}, "x" * rng.randrange(3000), "\0", "\u20ac"))


def request(rng):
    command = rng.choice(tuple(ARGUMENTS))
    message = {"execute": names.name(command)}
    arguments = {name: value(rng) for name in ARGUMENTS[command] if rng.random() < 0.6}
    if rng.random() < 0.05:
        arguments[rng.choice(("foo", "", "Order"))] = value(rng)
    if arguments or rng.random() < 0.5:
        message["arguments"] = arguments
    data = json.dumps(message).encode()
    if rng.random() < 0.03:
        data = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(32, 127)
        data = bytes(data)
    return data


def mutate(rng, data):
    data = bytearray(data or b"0")
    for _ in range(rng.randrange(1, 8)):
        where = rng.randrange(len(data) + 1)
        kind = rng.random()
        if kind < 0.4 and where < len(data):
            data[where] = rng.randrange(256)
        elif kind < 0.6:
            del data[where : where + rng.randrange(20)]
        elif kind < 0.8:
            data[where:where] = str(rng.choice(NUMBERS)).encode()
        else:
            data[where:where] = rng.choice(
                (b"\n", b" ", b"\0", b"-", b"Node 0, zone ", b"total=", b"99999999999999999999")
            )
        data = data or bytearray(b"\n")
    return bytes(data)


def check_written(root):
    """What is in the settings now is what we, not the agent, put there, or in range."""
    for name, top in (("page_reporting_order", 20), ("page_reporting_delay_ms", 3600000)):
        file = root.dir / PARAMS / name
        text = file.read_bytes().split(b"\n")[0]
        if file in root.ours and root.ours[file] == file.read_bytes():
            continue
        if (
            text.isdigit()
            and not 0 <= int(text) <= top
            and (file not in root.ours or not root.ours[file].startswith(text))
        ):
            raise AssertionError(f"{name} is {text!r}")


def ask(agent, data, counts):
    """One request, which may be none; the last answer before ours, and the seconds until all were there."""
    start = time.monotonic()
    # what is not JSON may have no end, or several
    agent.raw(data + b"\n\xff")
    agent.raw(b'{"execute": "guest-sync", "arguments": {"id": 4711}}\n')
    last = None
    while True:
        answer = agent.receive()
        kind = "return" if "return" in answer else answer["error"]["class"]
        counts[kind] = counts.get(kind, 0) + 1
        if answer.get("return") == 4711:
            return last, time.monotonic() - start
        last = answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--limit", type=float, default=2.0, help="seconds a call may take (default: 2)")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else int.from_bytes(os.urandom(4), "big")
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    root = FakeRoot()
    root.ours = {}
    (root.dir / "proc/kpageflags").write_bytes(rng.randbytes(16384 * 8))
    root.write(FILES[9], "2097152\n")
    root.write(FILES[10], "0" * 64 + "\n")
    good = root.snapshot()
    agent = Agent(
        args.agent,
        root=root,
        env={"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=1", "UBSAN_OPTIONS": "halt_on_error=1"},
    )
    counts, slowest, begin, ok = {}, 0.0, time.monotonic(), False
    data = answer = b""
    try:
        while time.monotonic() - begin < args.seconds:
            if rng.random() < 0.3:
                name = rng.choice(FILES)
                file = root.dir / name
                kind = rng.random()
                if kind < 0.3:
                    file.write_bytes(good[name])
                elif kind < 0.9:
                    file.write_bytes(mutate(rng, good[name]))
                elif file.exists():
                    file.unlink()
                root.ours[file] = file.read_bytes() if file.exists() else b""
            data = request(rng)
            # A flush takes its 1.5 s, as nobody carries it out here, and the machine may add to that; it hardly does so
            # each time that the same is asked for.
            for _ in range(4):
                answer, took = ask(agent, data, counts)
                slowest = max(slowest, took)
                if took <= args.limit or took > 5 * args.limit:
                    break
            if took > args.limit:
                raise AssertionError(f"took {took:.1f} s, slowest {slowest:.1f} s")
            if (root.dir / PARAMS / "page_reporting_order").exists() and (
                root.dir / PARAMS / "page_reporting_delay_ms"
            ).exists():
                check_written(root)
        ok = True
    finally:
        log = (agent.dir / "log").read_text(errors="replace")
        if not ok:
            print(f"after {data!r}\nanswer {answer!r}\n{log[-4000:]}")
        status = agent.stop()
        root.remove()
    if status:
        sys.exit(f"the agent ended with {status}\n{log[-4000:]}")
    n = sum(counts.values())
    print(
        f"{n} answers in {time.monotonic() - begin:.0f} s, slowest {slowest:.2f} s: "
        + ", ".join(f"{v} {k}" for k, v in sorted(counts.items()))
    )


if __name__ == "__main__":
    main()
