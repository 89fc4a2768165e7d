"""The page recycler of the guest, with a host that a thread of the guest's own kernel plays.

Run with kernel/tests/run --series recycler, which builds the kernels: MEMHINT_KERNEL as guests get it, and
MEMHINT_KERNEL_TEST with that thread.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from case import KernelCase

from lab import patched
from lab.kernel_guest import PAGES_PER_MIB, Guest, GuestError, image_folder

PARAMETERS = "/sys/module/page_recycler/parameters"
PLAY = "/sys/kernel/debug/page_recycler"
COUNTERS = ("marked", "taken_back", "recycled", "aside", "known_zero")
MIB = 512
NOBODY, IDLE, AT_WORK = 0, 1, 2
PAGE = 4096
CHUNK = 1 << 20
PAIRS = 20000
FEW_BLOCKS = 2 * 1024  # pages of two blocks of the largest order, one with what the host is at work on
BLOCK_MIB = 128  # of a memory block, which is a section, for which the table has a piece
ADDED_BLOCKS = 4
STOPS = 3  # number of the change after which the guest stands still
STEP = 1000  # pairs of a CPU, after which it is known that all of them were right


class RecyclerCase(KernelCase):
    """One guest for all tests of a class."""

    kernel = "MEMHINT_KERNEL_TEST"
    cpus = 2
    options: ClassVar[dict[str, Any]] = {}

    @classmethod
    def boot(cls) -> Guest:
        guest = Guest(image_folder(cls.kernel), **{"mib": MIB, **cls.options})
        guest.run("mount -t debugfs none /sys/kernel/debug")
        return guest

    def counters(self) -> dict[str, int]:
        """The recycler's lines of /proc/vmstat."""
        found = self.guest.vmstat()
        return {name: found[f"recycler_{name}"] for name in COUNTERS}

    def play(self, **values: object) -> None:
        """Tell the thread that plays the host."""
        for name, value in values.items():
            self.guest.run(f"echo {value} > {PLAY}/{name}")

    def table(self) -> dict[str, int]:
        """Pages by what the table says of them, and how many it is wrong about."""
        lines = self.guest.run(f"cat {PLAY}/table").splitlines()
        return {name: int(value) for name, value in map(str.split, lines)}

    def enable(self, value: int) -> None:
        """Set the parameter."""
        self.guest.run(f"echo {value} > {PARAMETERS}/enabled")

    def begin_load(self, pairs: int) -> None:
        """Allocate and free on each CPU, with the content of every page verified, in steps: `passed` counts them."""
        steps = -(-pairs // (self.cpus * STEP))
        step = f"echo {STEP} > {PLAY}/pairs && echo >> /tmp/passed || {{ echo >> /tmp/failed; break; }}"
        more = f"[ $i -lt {steps} ] && [ ! -e /tmp/enough ]"
        one = f"(i=0; while {more}; do {step}; i=$((i + 1)); done; echo >> /tmp/ended) 2> /dev/null"
        self.guest.run(
            f"rm -f /tmp/failed /tmp/enough; : > /tmp/passed; : > /tmp/ended; {(one + ' & ') * self.cpus} true"
        )

    def lines(self, name: str) -> int:
        """How many lines a file of the load has."""
        return int(self.guest.run(f"cat /tmp/{name} 2> /dev/null | wc -l"))

    def free_pages(self) -> int:
        """What the kernel says is free, without what CPUs keep for themselves."""
        return self.guest.counter("nr_free_pages")


class OffTest(RecyclerCase):
    """The kernel as guests get it, with a host that does not look: nothing happens."""

    kernel = "MEMHINT_KERNEL"

    def test_nothing_is_marked(self) -> None:
        self.guest.hold(128)
        self.guest.release()
        assert set(self.counters().values()) == {0}
        assert self.guest.run(f"cat {PARAMETERS}/enabled {PARAMETERS}/aside_max_us").split() == ["Y", "0"]

    def test_nobody_plays_the_host(self) -> None:
        assert self.guest.try_run(f"ls {PLAY}")[0] != 0

    def test_parameters(self) -> None:
        for value in ("2", "x"):
            status, output = self.guest.try_run(f"echo {value} > {PARAMETERS}/enabled")
            assert status != 0
            assert "Invalid argument" in output
        self.enable(0)
        self.enable(1)
        assert self.guest.try_run(f"echo 1 > {PARAMETERS}/aside_max_us")[0] != 0


class PlayedCase(RecyclerCase):
    """Each test begins and ends without a host."""

    def setUp(self) -> None:
        self.play(hold=0, host=NOBODY)
        self.enable(1)

    def tearDown(self) -> None:
        self.play(hold=0, host=NOBODY)

    def right(self) -> dict[str, int]:
        """Wait until the table says what is free, and of no page anything else."""

        def seen() -> dict[str, int] | None:
            table = self.table()
            return table if table["free"] and not table["unmarked"] + table["stray"] else None

        found: dict[str, int] = self.guest.wait_until(seen, "the table to say what is free")
        return found

    def add_up(self) -> None:
        """Assert that each page that was marked was taken again, was set aside, or still is marked."""

        def difference() -> int | None:
            before, table, after = self.counters(), self.table(), self.counters()
            if before != after:
                return None
            marked = table["free"] + table["busy"] + table["recycled"]
            left = before["marked"] - before["taken_back"] - before["recycled"] - before["aside"]
            return left - marked + 1

        # one more than the difference: nothing that is false stands for equal
        assert self.guest.wait_until(difference, "the counters to stand still") == 1

    def load(self, pairs: int) -> None:
        """Allocate and free on each CPU, with the content of every page verified."""
        one = f"(echo {pairs} > {PLAY}/pairs || echo failed >> /tmp/failed)"
        self.guest.run(f"rm -f /tmp/failed; {one} & {one} & wait; test ! -e /tmp/failed || {{ dmesg | tail; false; }}")

    def hold_pages(self) -> int:
        """Have the host stop in the middle of a batch, and return how many pages it has in its hands."""
        self.play(host=AT_WORK, hold=1)
        self.guest.wait_until(lambda: self.busy() > 100 or self.again(), "the host to have pages busy")
        return self.busy()

    def again(self) -> None:
        """Let the host go on to another batch."""
        self.play(hold=0)
        time.sleep(0.1)
        self.play(hold=1)
        time.sleep(0.2)

    def busy(self) -> int:
        """Pages in the hands of the host."""
        return int(self.guest.run(f"cat {PLAY}/busy"))

    def pieces(self) -> int:
        """Pieces of the table that the host was told of."""
        return int(self.guest.run(f"cat {PLAY}/pieces"))

    def use_all(self) -> None:
        """Use nearly all memory that is free, and free it."""
        free = int(self.guest.run("grep MemAvailable /proc/meminfo").split()[1]) // 1024
        self.guest.hold(free - 24)
        self.guest.release()


class PlayedHostTest(PlayedCase):
    """A host at work, with two CPUs."""

    def test_the_table_says_what_is_free(self) -> None:
        assert self.guest.try_run(f"cat {PLAY}/table")[0] != 0 or not self.table()["free"]
        self.play(host=IDLE)
        idle = self.right()
        assert idle["free"] > MIB * PAGES_PER_MIB // 2
        assert idle["busy"] == idle["recycled"] == 0
        self.guest.hold(128)
        assert self.right()["free"] < idle["free"] - 64 * PAGES_PER_MIB
        self.guest.release()
        self.right()

    def test_content(self) -> None:
        before = self.counters()
        self.play(host=AT_WORK)
        self.load(PAIRS)
        self.guest.wait_until(lambda: self.table()["recycled"] > 64 * PAGES_PER_MIB, "the host to recycle")
        self.use_all()
        self.load(PAIRS)
        after = self.counters()
        print({name: after[name] - before[name] for name in COUNTERS}, flush=True)
        assert all(after[name] > before[name] for name in COUNTERS)
        self.play(host=IDLE)
        self.right()

    def test_counters_add_up(self) -> None:
        self.play(host=IDLE)
        self.right()
        # what happened before the table was right belongs to no page
        base = self.counters()
        table = self.right()
        assert base["marked"] >= table["free"]
        self.play(host=AT_WORK)
        self.load(PAIRS)
        self.use_all()
        self.play(host=IDLE)
        self.right()
        self.add_up()

    def test_aside(self) -> None:
        before = self.counters()["aside"]
        held = self.hold_pages()
        free = self.free_pages()
        self.use_all()
        aside = self.counters()["aside"] - before
        assert 0 < aside <= held
        assert self.table()["busy"] == held
        # nobody waits, and they come back when the host has ended
        self.play(hold=0, host=IDLE)
        self.guest.wait_until(lambda: self.table()["busy"] == 0, "the host to end")
        self.right()
        self.guest.wait_until(lambda: self.free_pages() > free - 16 * PAGES_PER_MIB, "all memory to be free")
        self.add_up()
        assert int(self.guest.run(f"cat {PARAMETERS}/aside_max_us")) > 1000

    def test_others_pass_over_what_is_busy(self) -> None:
        self.guest.set(enabled=0)
        self.use_all()  # what was reported is not any more
        self.hold_pages()
        self.guest.set(enabled=1)
        for _ in range(2):
            self.guest.set(flush_pages=MIB * PAGES_PER_MIB)
            self.guest.wait_until(lambda: self.guest.get("flush_pages") == "0", "the flush to end")
        self.guest.wait_until(lambda: self.guest.unreported() <= FEW_BLOCKS, "all but what is busy to be reported")
        self.guest.run("echo 1 > /proc/sys/vm/compact_memory")
        # that was all with the host at work
        assert self.table()["busy"] > 100

    def test_disabled_while_pages_are_busy(self) -> None:
        held = self.hold_pages()
        started = time.monotonic()
        self.enable(0)
        assert time.monotonic() - started < 5
        self.use_all()
        # the host has not answered: it may still look
        assert self.table()["busy"] == held
        self.play(hold=0)
        marks = ("free", "busy", "recycled")
        self.guest.wait_until(lambda: not any(self.table()[name] for name in marks), "the table to be withdrawn")
        marked = self.counters()["marked"]
        self.guest.hold(64)
        self.guest.release()
        assert self.counters()["marked"] == marked
        self.enable(1)
        self.right()

    def test_host_comes_and_goes(self) -> None:
        self.guest.run(f"(echo {PAIRS} > {PLAY}/pairs || echo failed > /tmp/failed) & echo $! > /tmp/load")
        for _ in range(5):
            self.play(host=AT_WORK)
            time.sleep(0.5)
            self.play(hold=1, host=NOBODY)
            self.play(hold=0)
        self.guest.run("wait; test ! -e /tmp/failed")
        self.play(host=IDLE)
        self.right()


class OneCpuTest(PlayedHostTest):
    """The same where nothing ever happens at the same time, and the kernel takes lock prefixes out of its code."""

    options: ClassVar[dict[str, Any]] = {"cpus": 1}


class HotplugTest(PlayedCase):
    """Memory that comes and goes while the host is at work."""

    options: ClassVar[dict[str, Any]] = {"mib": MIB, "hotplug_mib": 512}
    added: ClassVar[list[str]] = []

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.guest.run("echo online_movable > /sys/devices/system/memory/auto_online_blocks")

    def blocks(self, state: str) -> int:
        """Memory blocks in a state."""
        return int(self.guest.run(f"cat /sys/devices/system/memory/memory*/state | grep -c '^{state}$'; true"))

    def told_of(self, pieces: int) -> None:
        """Wait until the host knows of so many pieces of the table."""
        try:
            self.guest.wait_until(lambda: self.pieces() == pieces, f"the host to know of {pieces} pieces")
        except GuestError as error:
            raise GuestError(f"{error}; it knows of {self.pieces()}: {self.guest.run('dmesg | tail')}") from error

    def plug(self, mib: int) -> None:
        """Ask the guest to have that much added memory, and wait for it."""
        self.guest.qmp("qom-set", path="/machine/peripheral/mem0", property="requested-size", value=mib << 20)
        get = {"path": "/machine/peripheral/mem0", "property": "size"}
        self.guest.wait_until(lambda: self.guest.qmp("qom-get", **get) == mib << 20, f"{mib} MiB to be plugged")

    def test_comes_and_goes(self) -> None:
        self.play(host=AT_WORK)
        before = self.right_at_rest()
        for _ in range(2):
            self.plug(512)
            assert self.right_at_rest() > before + 400 * PAGES_PER_MIB
            self.load(PAIRS // 4)
            self.plug(0)
            assert self.right_at_rest() < before + 100 * PAGES_PER_MIB
        self.play(host=IDLE)
        self.right()
        self.add_up()

    def right_at_rest(self) -> int:
        """Pages the table says nobody needs, with the host at rest for a moment."""
        self.play(host=IDLE)
        table = self.right()
        self.play(host=AT_WORK)
        return table["free"] + table["recycled"]

    def test_added_while_the_host_does_not_answer(self) -> None:
        self.play(host=IDLE)
        before, online = MIB // BLOCK_MIB, self.blocks("online")
        self.told_of(before)
        self.hold_pages()
        self.plug(512)
        self.guest.wait_until(lambda: self.blocks("online") == online + ADDED_BLOCKS, "the memory to be online")
        assert self.pieces() == before
        # told of nothing yet, and of all of it once it answers
        self.play(hold=0)
        self.told_of(before + ADDED_BLOCKS)
        self.play(host=IDLE)
        self.right()
        self.plug(0)
        # The device has it back before the guest is through with removing it.
        self.told_of(before)

    def test_stays_while_the_host_is_at_work(self) -> None:
        self.plug(512)
        self.hold_pages()
        block = self.guest.run("grep -l Movable /sys/devices/system/memory/memory*/valid_zones | tail -n 1")
        state = block.rsplit("/", 1)[0] + "/state"
        assert self.guest.run(f"cat {state}") == "online"
        # the host does not answer: the memory stays, and the writer is told
        status, output = self.guest.try_run(f"echo offline > {state}")
        assert status != 0, output
        assert self.guest.run(f"cat {state}") == "online"
        self.play(hold=0, host=IDLE)
        self.guest.run(f"echo offline > {state}")
        self.guest.run(f"echo online_movable > {state}")
        self.right()
        self.plug(0)


def emulator() -> Path:
    """The project's QEMU if it has been built and knows the page recycler; skips what needs it otherwise."""
    if patched.pieces_built().emulator != "memhint":
        raise unittest.SkipTest("the patched QEMU has not been built: qemu/build")
    program = patched.emulator_program()
    known = subprocess.run([program, "-device", "virtio-balloon-pci,help"], capture_output=True, text=True, check=True)
    if "page-recycler" not in known.stdout:
        raise unittest.SkipTest("the patched QEMU has no page recycler")
    return program


class DeviceCase(RecyclerCase):
    """QEMU as the host. Nothing is reported: what comes back comes from the table."""

    added_mib = 0
    arguments = "page_reporting.enabled=0"

    @classmethod
    def boot(cls) -> Guest:
        words = "page-recycler=on,recycler-workers=2,recycler-period-ms=10,recycler-max-bytes=0,recycler-leave-order=0"
        cls.options = {
            "cpus": cls.cpus,
            "hotplug_mib": cls.added_mib,
            "emulator": emulator(),
            "properties": f",{words}",
            "arguments": cls.arguments,
        }
        return super().boot()

    def host(self) -> dict[str, Any]:
        """What QEMU says of the recycler."""
        told: dict[str, Any] = self.guest.qmp("query-balloon-reporting")["recycler"]
        return told

    def set_host(self, **values: int) -> None:
        """Set properties of QEMU's recycler, with a low line for a hyphen."""
        for name, value in values.items():
            knob = "recycler-" + name.replace("_", "-")
            self.guest.qmp("qom-set", path="/machine/peripheral/balloon0", property=knob, value=value)


class DeviceTest(DeviceCase):
    """Memory comes back, and nothing else happens to it."""

    used = 256

    def use(self) -> None:
        """Use memory, free it, and wait until the host has it."""
        self.guest.hold(self.used)
        used = self.guest.resident_mib()
        self.guest.release()
        below = used - self.used * 9 // 10
        self.guest.wait_until(lambda: self.guest.resident_mib() < below, "the host to have nine tenths of it")

    def test_memory_comes_back(self) -> None:
        self.guest.wait_until(lambda: self.host()["pieces"], "the host to be told of the table")
        assert not any(self.host()["rejected"].values())
        assert self.host()["pages"] > (MIB - 32) * PAGES_PER_MIB
        before = self.counters()
        self.use()
        self.use()
        after = self.counters()
        assert after["recycled"] > before["recycled"] + self.used * PAGES_PER_MIB // 2
        assert self.guest.counter("page_report_pages") == 0

    def test_content(self) -> None:
        one = f"(echo {PAIRS} > {PLAY}/pairs || echo failed >> /tmp/failed)"
        before = self.counters(), self.host()["recycled"]
        self.guest.run(f"rm -f /tmp/failed; {one} & {one} & wait; test ! -e /tmp/failed")
        after = self.counters(), self.host()["recycled"]
        print({name: after[0][name] - before[0][name] for name in COUNTERS}, flush=True)
        assert after[0]["recycled"] > before[0]["recycled"]
        assert after[0]["known_zero"] > before[0]["known_zero"]
        assert after[1] > before[1]

    def test_withdrawn_and_given_again(self) -> None:
        self.enable(0)
        self.guest.wait_until(lambda: self.host()["pieces"] == 0, "the table to be withdrawn")
        self.enable(1)
        self.guest.wait_until(lambda: self.host()["pieces"], "the host to be told of the table")
        self.use()

    def test_driver_unbound(self) -> None:
        driver = "/sys/bus/virtio/drivers/virtio_balloon"
        device = self.guest.run(f"cd {driver}; ls -d virtio*; cd /")
        self.guest.run(f"echo {device} > {driver}/unbind")
        assert self.host()["pieces"] == 0
        self.guest.hold(self.used)
        self.guest.release()
        table = self.table()
        assert not any(table[name] for name in ("free", "busy", "recycled", "zero"))
        self.guest.run(f"echo {device} > {driver}/bind")
        self.guest.wait_until(lambda: self.host()["pieces"], "the host to be told of the table")
        self.use()


class DeviceOneCpuTest(DeviceTest):
    """The same with one CPU: an emulator may translate the guest's locked instructions to plain ones."""

    cpus = 1


class Changing(RecyclerCase):
    """Every page's content is verified while everything that can change does: for hours, if --pairs is large."""

    added_mib = 256

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.guest.run("echo online_movable > /sys/devices/system/memory/auto_online_blocks")

    def host_changes(self) -> list[Callable[[], object]]:
        """What may happen to the host: each is there until the load has passed another step."""
        raise NotImplementedError

    def changes(self) -> Iterator[Callable[[], object]]:
        """What is done to the host and the guest, again and again: the two in turn, in another pairing each time."""
        plug = {"path": "/machine/peripheral/mem0", "property": "requested-size"}
        guest: list[Callable[[], object]] = [
            lambda: self.guest.qmp("balloon", value=(MIB - 128) << 20),
            lambda: self.guest.qmp("qom-set", value=self.added_mib << 20, **plug),
            lambda: self.guest.qmp("balloon", value=MIB << 20),
            lambda: self.guest.qmp("stop"),
            lambda: self.guest.qmp("cont"),
            lambda: self.enable(0),
            lambda: self.guest.qmp("qom-set", value=0, **plug),
            lambda: self.enable(1),
        ]
        host = itertools.cycle(self.host_changes())
        for number in itertools.count():
            yield guest[number % len(guest)]
            if number % len(guest) != STOPS:  # it stands still, and its shell with it
                yield next(host)

    def verify(self) -> dict[str, int]:
        """Run the load to its end, and return what the guest counted meanwhile."""
        pairs = int(os.environ.get("MEMHINT_PAIRS", 2 * PAIRS))
        minutes = float(os.environ.get("MEMHINT_MINUTES", "inf"))
        before = self.counters()
        began = told = time.monotonic()
        self.begin_load(pairs)
        passed = 0
        for done, change in enumerate(self.changes(), 1):
            change()
            if self.guest.qmp("query-status")["status"] != "running":
                continue
            self.guest.wait_until(
                lambda so_far=passed: self.ended() or self.lines("passed") > so_far, "the load to go on"
            )
            if self.ended():
                break
            passed = self.lines("passed")
            if time.monotonic() > told + 60:
                told = time.monotonic()
                print(f"{passed * STEP} pairs, {done} changes, {told - began:.0f} s", flush=True)
            if time.monotonic() > began + 60 * minutes:
                self.guest.run(": > /tmp/enough")
                self.guest.wait_until(self.ended, "the load to end")
                break
        seconds = time.monotonic() - began
        self.enable(1)
        after, verified = self.counters(), self.lines("passed") * STEP
        counted = {name: after[name] - before[name] for name in COUNTERS}
        longest = int(self.guest.run(f"cat {PARAMETERS}/aside_max_us"))
        print(
            f"{verified} pairs in {seconds:.0f} s with {done} changes, "
            f"{3600 * verified / seconds / 1e6:.2f} million an hour; "
            f"the longest that a page was set aside: {longest / 1000:.1f} ms; {counted}",
            flush=True,
        )
        assert not self.lines("failed"), self.guest.run("dmesg | tail")
        assert verified >= pairs or minutes < float("inf")
        return counted

    def ended(self) -> bool:
        """Whether the load is through, on all CPUs."""
        return self.lines("ended") == self.cpus


class ChangingPlayedHostTest(Changing, PlayedCase):
    """With the host that scribbles over what it wins: it stops in the middle, goes away, and comes again."""

    options: ClassVar[dict[str, Any]] = {"mib": MIB, "hotplug_mib": Changing.added_mib}

    def host_changes(self) -> list[Callable[[], object]]:
        return [
            lambda: self.play(host=AT_WORK),
            lambda: self.play(hold=1),
            lambda: self.play(hold=0),
            lambda: self.play(host=IDLE),
            lambda: self.play(host=AT_WORK),
            lambda: self.play(hold=1),
            lambda: self.play(hold=0, host=NOBODY),
        ]

    def test_content(self) -> None:
        self.play(host=AT_WORK)
        self.guest.wait_until(lambda: self.table()["recycled"] > 16 * PAGES_PER_MIB, "the host to recycle")
        counted = self.verify()
        assert all(counted[name] for name in ("marked", "taken_back", "recycled", "known_zero"))
        self.play(hold=0, host=IDLE)
        self.right()


class ChangingHostTest(Changing, DeviceCase):
    """With QEMU's threads, which are paused, restarted, and change their pace."""

    def host_changes(self) -> list[Callable[[], object]]:
        return [
            lambda: self.set_host(workers=4),
            lambda: self.set_host(max_bytes=4 << 20),
            lambda: self.set_host(workers=0),
            lambda: self.set_host(leave_order=9, max_bytes=0),
            lambda: self.set_host(workers=1),
            lambda: self.set_host(leave_order=0, workers=2),
        ]

    def test_content(self) -> None:
        before = self.host()["recycled"]
        counted = self.verify()
        print(f"{(self.host()['recycled'] - before) >> 20} MiB were given back", flush=True)
        assert all(counted[name] for name in ("marked", "taken_back", "recycled", "known_zero"))


class BrokenCase(RecyclerCase):
    """The load notices a host that breaks the protocol: this process, which writes to the memory of a QEMU that rests.

    Each test has a guest of its own, which is of no use afterwards. Nothing is run in it once its memory is spoilt.
    """

    cpus = 1

    @classmethod
    def setUpClass(cls) -> None:
        pass

    @classmethod
    def tearDownClass(cls) -> None:
        pass

    def setUp(self) -> None:
        self.guest = self.boot()

    def tearDown(self) -> None:
        self.guest.close()

    def memory(self) -> range:
        """Addresses of the guest's memory in QEMU's own, page by page."""
        found = []
        for line in Path(f"/proc/{self.guest.process.pid}/maps").read_text().splitlines():
            words = line.split()
            begin, end = (int(word, 16) for word in words[0].split("-"))
            if words[1] == "rw-p" and len(words) == 5 and end - begin == MIB << 20:  # of no file, and no code
                found.append(range(begin, end, PAGE))
        (pages,) = found
        return pages

    def said(self, what: str) -> bool:
        """Whether the load has said this of a page."""
        return f"page_recycler_test: {what}" in self.guest.console.read_text(errors="replace")


class DroppingHostTest(BrokenCase):
    """A host that drops pages which it has not won."""

    # What the load says of a page is on the console.
    options: ClassVar[dict[str, Any]] = {"cpus": 1, "arguments": "loglevel=7"}

    def stamped(self) -> Iterator[int]:
        """Addresses of pages that are filled with one number, as the load fills its own, each as soon as it is seen."""
        pages = self.memory()
        with Path(f"/proc/{self.guest.process.pid}/mem").open("rb", buffering=0) as memory:
            for at in range(pages.start, pages.stop, CHUNK):
                memory.seek(at)
                seen = memory.read(CHUNK)
                for offset in range(0, len(seen), PAGE):
                    word = seen[offset : offset + 8]
                    # A random number: what has fewer values is something else's.
                    if len(set(word)) > 4 and seen[offset : offset + PAGE] == word * (PAGE // 8):
                        yield at + offset

    def drop_used(self, spared: set[int]) -> bool:
        """Drop pages of the load without winning them, as if: a page that was dropped reads as zeros."""
        dropped = False
        with Path(f"/proc/{self.guest.process.pid}/mem").open("r+b", buffering=0) as memory:
            for at in self.stamped():
                if at not in spared:
                    memory.seek(at)
                    memory.write(bytes(PAGE))
                    dropped = True
        return dropped

    def test_a_page_that_is_dropped_while_it_is_used_is_noticed(self) -> None:
        before = set(self.stamped())
        self.begin_load(1000 * STEP)
        self.guest.wait_until(
            lambda: self.drop_used(before) and self.said("a page in use was touched"), "the load to notice"
        )
        self.guest.wait_until(lambda: self.lines("failed"), "the load to fail")
