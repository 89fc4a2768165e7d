"""A stand-in for qemu-ga: its file commands over files in memory, with the faults that real guests show."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from memhint.guest.errors import GuestTimeout

FILE_COMMANDS = ("guest-file-open", "guest-file-close", "guest-file-read", "guest-file-write", "guest-file-flush")


@dataclass
class Handle:
    """A stdio stream in the guest."""

    path: str
    mode: str
    position: int = 0
    buffer: bytes = b""
    dangling: bool = False  # fclose() failed: the stream is freed, the agent still lists the handle


class AgentRefusal(Exception):
    """An error the fake agent answers with."""


@dataclass
class FakeAgent:
    """Call it as an AgentTransport.

    ``refused_writes``: paths where the kernel says EINVAL. ``keeps_buffer``: a libc that keeps the bytes of a failed
    fflush(), so that the following fclose() fails as well. ``hang_at``: commands that never answer.
    ``mangle``: changes the raw answer of a command.
    """

    files: dict[str, str] = field(default_factory=dict)
    refused_writes: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    hang_at: set[str] = field(default_factory=set)
    keeps_buffer: bool = False
    read_max: int = 1 << 20
    release: str = "6.12.117+deb12-cloud-amd64"
    mangle: Callable[[str, str], str] | None = None
    on_write: Callable[[str, str], None] | None = None
    calls: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    timeouts: list[int] = field(default_factory=list)
    handles: dict[int, Handle] = field(default_factory=dict)
    crimes: list[str] = field(default_factory=list)  # uses of freed memory

    def __call__(self, request: str, timeout: int) -> str:
        message = json.loads(request)
        command, arguments = message["execute"], message.get("arguments", {})
        self.calls.append((command, arguments))
        self.timeouts.append(timeout)
        if command in self.hang_at:
            raise GuestTimeout(f"{command}: no answer in {timeout} s")
        answer = self._answer(command, arguments)
        return self.mangle(command, answer) if self.mangle else answer

    def commands(self) -> list[str]:
        """The commands received, in order."""
        return [command for command, _ in self.calls]

    def paths(self) -> list[str]:
        """The paths opened, in order."""
        return [str(arguments["path"]) for command, arguments in self.calls if command == "guest-file-open"]

    def _answer(self, command: str, arguments: dict[str, object]) -> str:
        actions = {
            "guest-info": self._info,
            "guest-get-osinfo": self._osinfo,
            "guest-file-open": self._open,
            "guest-file-read": self._read,
            "guest-file-write": self._write,
            "guest-file-flush": self._flush,
            "guest-file-close": self._close,
        }
        if command not in actions:
            return _error("CommandNotFound", f"The command {command} has not been found")
        if command in self.blocked:
            return _error("GenericError", f"Command {command} has been disabled")
        try:
            return json.dumps({"return": actions[command](arguments)})
        except AgentRefusal as refusal:
            return _error("GenericError", str(refusal))

    def _info(self, arguments: dict[str, object]) -> object:
        names: Iterable[str] = ("guest-info", "guest-get-osinfo", *FILE_COMMANDS)
        supported = [{"name": name, "enabled": name not in self.blocked, "success-response": True} for name in names]
        return {"version": "10.0.13", "supported_commands": supported}

    def _osinfo(self, arguments: dict[str, object]) -> object:
        return {"id": "debian", "kernel-release": self.release, "machine": "x86_64"}

    def _open(self, arguments: dict[str, object]) -> object:
        path, mode = str(arguments["path"]), str(arguments["mode"])
        if path not in self.files:
            raise AgentRefusal(f"failed to open file '{path}' (mode: '{mode}'): No such file or directory")
        number = 1000 + len(self.commands())
        self.handles[number] = Handle(path, mode)
        return number

    def _read(self, arguments: dict[str, object]) -> object:
        handle = self._handle(arguments)
        if handle.path in self.unreadable:
            raise AgentRefusal("failed to read file: Input/output error")
        content = self.files[handle.path].encode()
        asked = min(int(str(arguments["count"])), self.read_max)
        data = content[handle.position : handle.position + asked]
        handle.position += len(data)
        answer: dict[str, object] = {"count": len(data), "eof": len(data) < asked}
        if data:
            answer["buf-b64"] = base64.b64encode(data).decode()
        return answer

    def _write(self, arguments: dict[str, object]) -> object:
        handle = self._handle(arguments)
        data = base64.b64decode(str(arguments["buf-b64"]))
        handle.buffer += data
        return {"count": len(data), "eof": False}

    def _flush(self, arguments: dict[str, object]) -> object:
        self._drain(self._handle(arguments), "failed to flush file")
        return {}

    def _close(self, arguments: dict[str, object]) -> object:
        handle = self._handle(arguments)
        try:
            self._drain(handle, "failed to close handle")
        except AgentRefusal:
            handle.dangling = True
            raise
        del self.handles[int(str(arguments["handle"]))]
        return {}

    def _drain(self, handle: Handle, failure: str) -> None:
        if not handle.buffer:
            return
        text = handle.buffer.decode()
        if handle.path in self.refused_writes:
            if not self.keeps_buffer:
                handle.buffer = b""
            raise AgentRefusal(f"{failure}: Invalid argument")
        handle.buffer = b""
        self.files[handle.path] = text
        if self.on_write:
            self.on_write(handle.path, text)

    def _handle(self, arguments: dict[str, object]) -> Handle:
        number = int(str(arguments["handle"]))
        if number not in self.handles:
            raise AgentRefusal(f"handle '{number}' has not been found")
        handle = self.handles[number]
        if handle.dangling:
            self.crimes.append(f"handle {number} of {handle.path} used after its close failed")
        return handle


def _error(error_class: str, desc: str) -> str:
    return json.dumps({"error": {"class": error_class, "desc": desc}})
