"""The processor of emulated guests."""

from __future__ import annotations

SPOILT = "cx16"
"""QEMU before 8.0 leaves any bits in the flags after cmpxchg16b, of which guest kernels die: doc/guests.md."""
EMULATED_CPU = f"max,-{SPOILT}"
"""What `-cpu` is told: all that QEMU emulates, and emulates rightly."""
CLOCK = "no_timer_check tsc=reliable"
"""What a kernel on it is told: emulated timers are late under load, and it would test, and then distrust, them."""
