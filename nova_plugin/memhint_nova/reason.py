"""Why a host gets no VM, and why one was judged by nominal accounting."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A veto's type: in the log, in the counts and in doc/nova.md."""

    NO_DATA = "no_data"  # memhint tells of no host, or nothing was ever heard from it: nominal accounting, it is full
    UNKNOWN = "unknown"  # memhint tells of other hosts, not of this one: nominal accounting, and it is full
    MISMATCH = "mismatch"  # a host of this name has another UUID or none, or is not understood, or two are it: the same
    STALE = "stale"  # the newest report is too old: the same
    PRESSURE = "pressure"  # the host's agent admits nothing
    SWAP_IN = "swap_in"  # the same, because the host swaps in
    PSI = "psi"  # memory pressure beyond [memhint] psi_limit
    OPT_OUT = "opt_out"  # flavor or aggregate says overcommit=deny: nominal accounting, and it is full
    EXCLUDED_FLAVOR = "excluded_flavor"  # the VM's memory can never come back: nominal accounting, and it is full
    CLASS_LIMIT = "class_limit"  # beyond what [memhint] allows VMs of this class
    MAX_RATIO = "max_ratio"  # beyond the flavor's memhint:max_ratio
    HEADROOM = "headroom"  # measured headroom, less what was placed and is not seen yet, is too small
