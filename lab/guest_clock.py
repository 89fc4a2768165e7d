"""By what the kernels of virtual hosts tell the time, as words for their command lines."""

from __future__ import annotations

OWN_CLOCK = "no_timer_check tsc=unstable"
"""Emulated timers are late under load: these words keep a kernel from testing its timers, and from telling the time by
the TSC. It finds out at boot how fast that one counts. On a machine that is busy just then it may find a few times too
little, and its clock goes a few times too fast for as long as it runs."""
COUNTED_CLOCK = "no_timer_check tsc=reliable"
"""Where time goes on with each instruction what is found out at boot is right, and read with the fewest of them."""
