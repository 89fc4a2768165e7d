"""Runs inside a virtual host, as its first process: calls functions of the modules in /inside for whoever asks.

A request is a line ``@TAG MODULE.FUNCTION ARGUMENTS``, the arguments being a JSON object; the answer a JSON object with
``id``, ``ok``, and ``result`` or ``error`` (a traceback). See lab/work_channel.py for the other end.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from typing import Any, BinaryIO

PORT = "memhint.lab.0"


def main() -> None:
    """Serve for ever."""
    sys.path.insert(0, "/inside")
    with open(_device(), "r+b", buffering=0) as port:
        while True:
            for line in _lines(port):
                if line.startswith("@"):
                    tag, _, request = line[1:].partition(" ")
                    _send(port, json.dumps({"id": tag, **_answer(request)}).encode() + b"\n")


def _send(port: BinaryIO, text: bytes) -> None:
    # The kernel takes 32 KiB of a port at once. Who asked would wait for the rest of a longer answer for ever.
    left = memoryview(text)
    while left:
        left = left[port.write(left) :]


def _device() -> str:
    while True:
        for port in os.listdir("/sys/class/virtio-ports"):
            with open(f"/sys/class/virtio-ports/{port}/name", encoding="ascii") as name:
                if name.read().strip() == PORT:
                    return f"/dev/{port}"
        time.sleep(0.01)


def _lines(port: BinaryIO) -> Any:
    """Lines until the other end hangs up."""
    buffer = b""
    while True:
        chunk = port.read(65536)
        if not chunk:
            time.sleep(0.01)  # nobody has opened the other end
            return
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            yield line.decode()


def _answer(request: str) -> dict[str, Any]:
    name, _, arguments = request.partition(" ")
    module, _, function = name.rpartition(".")
    try:
        call = getattr(importlib.import_module(module), function)
        return {"ok": True, "result": call(**json.loads(arguments or "{}"))}
    except BaseException:  # noqa: BLE001 - the first process must not end
        return {"ok": False, "error": traceback.format_exc()}


if __name__ == "__main__":
    main()
