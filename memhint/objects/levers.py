"""The declaration of each lever: the policy that wishes it, the rung that pulls it, its options, and its undo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a VM's report that belongs to a lever, as a column of `memhint domains`."""

    title: str
    record: str
    """A field of the VM's report, which may be None."""
    field: str
    """Of that record: bytes, or a count."""
    in_bytes: bool


@dataclass(frozen=True, slots=True)
class Declaration:
    """One lever. Tables, orders and documents are made of these, or held to them by a test."""

    name: LeverName
    does: str
    wish: str | None = None
    """The policy key that wishes it on or off, or allows it; None where no policy does."""
    keys: tuple[str, ...] = ()
    """Policy keys that say more of it."""
    rungs: tuple[Rung, ...] = ()
    """Of the pressure ladder, on which it is pulled."""
    options: tuple[str, ...] = ()
    """Groups of the configuration file."""
    undo: str = ""
    """What becomes of it when memhint stops."""
    listed: tuple[Figure, ...] | None = None
    """What `memhint domains` shows before its three fields; None: it shows neither."""
    summed: bool = False
    """Whether a host's line has the sum of what it could still bring back. The store has a column for each."""


LEVERS: Mapping[LeverName, Declaration] = {
    one.name: one
    for one in (
        Declaration(
            LeverName.REPORTING,
            "the guest tells which memory is free, and the host takes it",
            wish="reporting",
            keys=("guest_actions", "guest_unbind", "reporting_order", "reporting_delay_ms"),
            rungs=(Rung.REPORTING, Rung.ORDER),
            options=("reporting", "guest"),
            undo="the guest's own settings are put back",
            listed=(),
            summed=True,
        ),
        Declaration(
            LeverName.DEDUP,
            "equal pages of one project's VMs are merged",
            wish="dedup",
            keys=("project",),
            rungs=(Rung.DEDUP,),
            options=("dedup",),
            undo="pages are separated, then KSM is put back",
            listed=(
                Figure("Merged", "merging", "merged", in_bytes=True),
                Figure("Breaks", "merging", "breaks", in_bytes=False),
            ),
            summed=True,
        ),
        Declaration(
            LeverName.CACHE,
            "the guest gives up page cache that it has not used recently",
            keys=("guest_actions",),
            rungs=(Rung.CACHE,),
            options=("guest",),
            undo="nothing to put back: the guest reads again what it needs",
            summed=True,
        ),
        Declaration(
            LeverName.RECYCLER,
            "QEMU takes single pages that the guest marked free",
            wish="recycler",
            keys=("class",),
            rungs=(Rung.RECYCLER,),
            options=("recycler",),
            undo="QEMU's own pace is put back; the guest gets a page when it touches it",
        ),
        Declaration(
            LeverName.KHUGEPAGED,
            "the host's kernel is kept from filling again what was taken in single pages, and VMs from waiting in vain",
            options=("khugepaged",),
            undo="each setting as it was, unless somebody has set it since",
        ),
        Declaration(
            LeverName.THP,
            "a VM that works again gets back the huge pages that were split while it was idle",
            wish="thp",
            options=("thp",),
            undo="nothing to put back: a huge page is split when a part of it is taken",
        ),
        Declaration(
            LeverName.TIERING,
            "hot memory is moved to fast NUMA nodes, cold memory to slow ones, and a scattered VM to one node",
            wish="tiering",
            keys=("fast_min", "fast_max"),
            options=("tiering", "active"),
            undo="nothing to put back: pages stay where they are, and the VM's own memory policy is never changed",
        ),
        Declaration(
            LeverName.QOS,
            "what the host's kernel spares under pressure, and whom it kills first",
            wish="class",
            keys=("min_mb",),
            undo="each file as it was, unless somebody has set it since",
        ),
        Declaration(
            LeverName.SWAP_OUT,
            "cold memory goes to encrypted disk swap, once the VM was given time to touch what it uses",
            wish="swap_out",
            keys=("class", "min_mb"),
            rungs=(Rung.SWAP_OUT,),
            options=("swap_out",),
            undo="nothing to put back: a page comes back when the guest touches it",
        ),
        Declaration(
            LeverName.BALLOON,
            "an idle best-effort VM shrinks, never below its minimum",
            wish="balloon",
            keys=("class", "min_mb"),
            rungs=(Rung.BALLOON,),
            undo="the VM gets all of its memory back",
        ),
        Declaration(
            LeverName.MIGRATION,
            "an operator, or Nova, is asked to move a VM to another host",
            rungs=(Rung.MIGRATION,),
            undo="the wish is withdrawn",
        ),
        Declaration(LeverName.LADDER, "the pressure ladder as a whole", options=("ladder",)),
    )
}
"""In the order in which a report has them."""


def listens(name: LeverName) -> tuple[str, ...]:
    """The policy keys that decide what a lever does, the one that wishes or allows it first."""
    one = LEVERS[name]
    return one.keys if one.wish is None else (one.wish, *one.keys)


def place_of(name: LeverName) -> int:
    """Where a report has this lever. One that is declared nowhere comes last."""
    return list(LEVERS).index(name) if name in LEVERS else len(LEVERS)
