"""Pages and huge pages: what is taken in smaller pieces than the latter leaves a hole in one."""

from __future__ import annotations

PAGE = 4096  # bytes, of guests and of the hosts that memhint knows
HUGE_ORDER = 9  # of a huge page of 2 MiB: what guests report in such blocks leaves no hole
HUGE_PAGE = PAGE << HUGE_ORDER
