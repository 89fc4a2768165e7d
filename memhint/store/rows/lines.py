"""The lines of hosts and VMs in lists, as rows, and when a VM's line is another one."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from memhint.objects.report import Report
from memhint.objects.summary import RECLAIMABLE, DomainSummary, HostSummary, host_summary
from memhint.objects.units import MIB
from memhint.store.rows.names import DOMAIN_SIZES, HOST_LOAD, HOST_SIZES

_PARTS = 1024  # of a VM's memory: less than one of these, or than a MiB, is no change
_WORDS = ("name", "project", "state", "qos", "demand_reason", "source", "agreement")
_PLAIN = (
    "provider",
    "forced_ratio",
    "slot_overhead",
    "epoch",
    "sequence",
    "at",
    "period",
    "agent",
    "ksm_saving",
    "psi",
    "domains",
    "gaps",
)
_SUMS = ("reported", "unreported", "returned")


@dataclass(frozen=True, slots=True)
class Seen:
    """A report, when it was made by the database's clock, and whether its host counts as silent nevertheless."""

    report: Report
    heard: float
    silent: bool = False


def fingerprint(line: DomainSummary) -> int:
    """A number that stays while the VM moves by next to nothing."""
    quantum = max(MIB, line.assigned // _PARTS)
    parts: list[object] = [line.assigned, *(getattr(line, name) for name in _WORDS)]
    for name in DOMAIN_SIZES:
        size = getattr(line, name)
        parts.append(size if size is None else size // quantum)
    return int.from_bytes(blake2b(repr(parts).encode(errors="replace"), digest_size=8).digest(), signed=True)


def host_line(one: Seen) -> dict[str, object]:
    """The row of a host."""
    line: HostSummary = host_summary(one.report, one.heard)
    row: dict[str, object] = {name: getattr(line, name) for name in (*HOST_SIZES, *_PLAIN, *_SUMS)}
    for lever in RECLAIMABLE:
        row[f"reclaimable_{lever}"] = line.reclaimable[lever]
    for name in HOST_LOAD:
        row[name] = None if line.load is None else getattr(line.load, name.removeprefix("load_"))
    return {
        **row,
        "name": line.name,
        "silent": int(one.silent),
        "heard": one.heard,
        "agent": None if line.agent is None else line.agent[:64],
        "bound": str(line.bound),
        "admitting": int(line.admitting),
        "detail": line.detail.replace("\0", "")[:1000],
        "rungs": ",".join(line.rungs),
    }


def domain_line(line: DomainSummary, mark: int) -> dict[str, object]:
    """The row of a VM. ``mark`` is its fingerprint."""
    row: dict[str, object] = {name: getattr(line, name) for name in ("uuid", "host", "assigned", *DOMAIN_SIZES)}
    for name in _WORDS:
        word = getattr(line, name)
        row[name] = word if word is None else str(word).replace("\0", "")[:255]
    return {**row, "fingerprint": mark}
