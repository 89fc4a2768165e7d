"""libvirt's event loop, on one thread for the whole process."""

from __future__ import annotations

import contextlib
import threading

import libvirt

_lock = threading.Lock()
_thread: threading.Thread | None = None


def start_event_loop() -> None:
    """Start the loop once. libvirt wants it before the first connection that is to deliver events."""
    global _thread
    with _lock:
        if _thread is not None:
            return
        # Without this libvirt prints every error to stderr before we get to see it.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        libvirt.virEventRegisterDefaultImpl()
        _thread = threading.Thread(target=_run, name="libvirt-events", daemon=True)
        _thread.start()


def _run() -> None:
    while True:
        with contextlib.suppress(libvirt.libvirtError):
            libvirt.virEventRunDefaultImpl()
