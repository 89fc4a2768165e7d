"""libvirt's event loop, on one thread for the whole process."""

from __future__ import annotations

import threading
import time

import libvirt

_AGAIN = 0.5  # seconds
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
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError:
            time.sleep(_AGAIN)  # one that fails at once each time would take a whole core
