"""A guest with page cache and the extended agent's commands, on a clock that moves only when it is waited on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from memhint.guest.commands import GET_MEMINFO, GET_PAGE_REPORTING, RECLAIM_MEMORY, SET_PAGE_REPORTING
from memhint.guest.errors import GuestTimeout
from memhint.guest.protocol import GuestAgent
from memhint.objects.units import MIB


class FakeGuest:
    """Gives up ``speed`` bytes a second of ``cold``, then answers as the agent of guest_agent/ does.

    ``silent``: so many calls are not answered. ``refusal``: the agent's words when it refuses to reclaim.
    ``changes``: members of its answers that are otherwise. ``pressure``: in percent, by the seconds that have passed.
    """

    def __init__(self, cold: int = 600 * MIB, active: int = 40 * MIB, speed: int = 200 * MIB) -> None:
        self.now = 0.0
        self.cold, self.active, self.speed = cold, active, speed
        self.unreported = 0
        self.other = 300 * MIB  # what its QEMU costs besides
        self.compactions = 0
        self.silent = 0
        self.avg10: float | None = None  # of guest-get-meminfo, in percent; None: not measured
        self.deaf = 0  # so many looks at its memory are not answered
        self.refusal = ""
        self.changes: dict[str, object] = {}
        self.pressure = lambda at: 0.5
        self.enabled = True
        self.settable = ["delay-ms", "enabled", "flush", "order"]
        self.asked: list[tuple[str, dict[str, object]]] = []
        self.under_way = 0  # conversations at this moment
        self.commands = [
            {"name": name, "enabled": True}
            for name in ("guest-info", GET_MEMINFO, GET_PAGE_REPORTING, SET_PAGE_REPORTING, RECLAIM_MEMORY)
        ]

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @contextmanager
    def conversation(self) -> Iterator[GuestAgent]:
        self.under_way += 1
        assert self.under_way == 1
        try:
            yield GuestAgent(self, timeout_s=4, clock=self.clock)
        finally:
            self.under_way -= 1

    def footprint(self) -> int:
        return self.other + self.cold + self.active + self.unreported

    def calls(self, command: str = RECLAIM_MEMORY) -> list[dict[str, object]]:
        return [arguments for name, arguments in self.asked if name == command]

    def __call__(self, request: str, timeout: int) -> str:
        message = json.loads(request)
        command, arguments = message["execute"], message.get("arguments", {})
        self.asked.append((command, arguments))
        if command == RECLAIM_MEMORY and self.silent:
            self.silent -= 1
            self.now += timeout
            raise GuestTimeout("no answer")
        if command == RECLAIM_MEMORY and self.refusal:
            return json.dumps({"error": {"class": "GenericError", "desc": self.refusal}})
        if command == GET_MEMINFO and self.deaf:
            self.deaf -= 1
            raise GuestTimeout("no answer")
        answers = {
            "guest-info": lambda _: {"version": "10.0", "supported_commands": self.commands},
            GET_MEMINFO: self._meminfo,
            GET_PAGE_REPORTING: self._reporting,
            SET_PAGE_REPORTING: self._flush,
            RECLAIM_MEMORY: self._reclaim,
        }
        return json.dumps({"return": answers[command](arguments)})

    def _meminfo(self, _: dict[str, object]) -> object:
        pressure = {} if self.avg10 is None else {"pressure": {"some-avg10": self.avg10}}
        return pressure | {
            "page-size": 4096,
            "total": 960 * MIB,
            "free": 100 * MIB,
            "cached": 10 * MIB,
            "buffers": self.cold + self.active,
            "shmem": 10 * MIB,
            "inactive-file": self.cold,
            "active-file": self.active,
        }

    def _reporting(self, _: dict[str, object]) -> object:
        return {
            "source": "kernel",
            "negotiated": True,
            "settable": self.settable,
            "enabled": self.enabled,
            "order": 9,
            "max-order": 10,
            "delay-ms": 2000,
            "free": self.unreported + 100 * MIB,
            "reportable": self.unreported,
            "reported": 0,
            "unreported": self.unreported,
            "zones": [],
            "more": False,
        }

    def _flush(self, arguments: dict[str, object]) -> object:
        flushed = min(self.unreported, int(str(arguments["flush"])), 256 * MIB)
        self.unreported -= flushed
        return {"enabled": True, "order": 9, "delay-ms": 2000, "flushed": flushed, "more": self.unreported > 0}

    def _reclaim(self, arguments: dict[str, object]) -> object:
        size, limit = int(str(arguments["bytes"])), float(str(arguments["psi-limit"]))
        seconds = int(str(arguments["time-limit-ms"])) / 1000
        assert seconds < 1.5
        pressure = self.pressure(self.now)
        got = 0 if pressure > limit else min(size, self.cold, int(self.speed * seconds))
        self.cold -= got
        self.unreported += got
        self.now += got / self.speed
        left = size - got
        stop, more, compaction = "done", False, "done"
        if pressure > limit:
            stop, compaction = "pressure", "none"
        elif left and not self.cold:
            stop = "exhausted"
        elif left:
            stop, more, compaction = "time", True, "none"
        self.compactions += compaction == "done"
        answer = {
            "reclaimed": got,
            "remaining": left,
            "stop": stop,
            "compaction": compaction,
            "more": more,
            "swapped-out": 0,
            "pressure": pressure,
            "free-before": 0,
            "free-after": 0,
            "reportable-before": 0,
            "reportable-after": self.unreported,
            "elapsed-ms": 5,
        }
        return answer | self.changes
