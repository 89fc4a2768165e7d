"""Where so many VMs of one size would fit, over the newest lines of the hosts. Nothing is kept and nothing is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memhint.objects.placement import HostPlacement, Placement, Refusal, Unfit
from memhint.objects.summary import Freshness, HostSummary
from memhint.objects.units import mib


def place(
    hosts: Iterable[HostSummary], memory: int, count: int, overhead: int, wanted: Sequence[str] | None = None
) -> Placement:
    """Place ``count`` VMs of ``memory`` bytes, each with QEMU's own beside it: as its host says, else ``overhead``.

    A new VM counts in full until it has been observed, so each takes its whole size from the headroom. The host with
    the least headroom that still takes one is filled first, by name where two have the same: memory that is left in
    one piece takes the largest VM later. ``wanted`` narrows the hosts to these names.
    """
    known = {one.name: one for one in hosts}
    names = list(known) if wanted is None else list(wanted)
    found = [known[name] for name in names if name in known]
    sizes = {one.name: memory + (one.slot_overhead or overhead) for one in found}
    refusals = {one.name: refusal(one, sizes[one.name]) for one in found}
    left, placed = count, dict.fromkeys(names, 0)
    for one in sorted(found, key=lambda one: (one.headroom, one.name)):
        if refusals[one.name] is None:
            placed[one.name] = min(left, one.headroom // sizes[one.name])
            left -= placed[one.name]
    rows = [
        HostPlacement(
            one.name,
            one.headroom // sizes[one.name] if refusals[one.name] is None else 0,
            max(0, one.nominal_headroom) // sizes[one.name],
            placed[one.name],
            one.headroom,
            refusals[one.name],
        )
        for one in found
    ]
    strangers = [
        HostPlacement(name, 0, 0, 0, None, Refusal(Unfit.UNKNOWN, "no agent of this name has reported"))
        for name in names
        if name not in known
    ]
    nominal = min(count, sum(row.nominal_slots for row in rows))
    return Placement(count - left, nominal, tuple(sorted((*rows, *strangers), key=lambda row: row.name)))


def refusal(host: HostSummary, size: int) -> Refusal | None:
    """Why a host takes no VM of ``size`` bytes; None where it takes one."""
    if host.state is Freshness.SILENT:
        return Refusal(Unfit.SILENT, "nothing has come from its agent for three periods or longer")
    if host.state is Freshness.STALE:
        return Refusal(Unfit.STALE, "its newest report is older than three periods")
    if not host.admitting:
        return Refusal(Unfit.PRESSURE, host.detail or "it is under memory pressure")
    if host.headroom < size:
        return Refusal(
            Unfit.HEADROOM,
            f"{mib(size)} MiB with QEMU's overhead are asked for, {mib(host.headroom)} MiB may be promised",
        )
    return None
