"""What the heap keeps of what was freed. In a process of its own: a heap's settings cannot be taken back."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import sys, threading
from memhint.agent.heap import keep_heap_small
if sys.argv[1] == "small":
    keep_heap_small()
def work():  # texts that come and go, each a little larger, and after each something small that stays
    kept = []
    for size in range(40_000, 4_000_000, 40_000):
        text = b"x" * size
        kept.append(b"y" * 600)
        del text
    done.wait()
    time.wait()
done, time = threading.Barrier(5), threading.Event()
threads = [threading.Thread(target=work) for _ in range(4)]
for one in threads: one.start()
done.wait()
for line in open("/proc/self/status"):
    if line.startswith("RssAnon"): print(line.split()[1])
time.set()
"""


def resident(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", _CODE, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_freed_memory_goes_back_to_the_host() -> None:
    assert resident("small") < resident("as it is") - 2048  # KiB
