"""What a plan asks of whom: the same for reports, `memhint plan` and who carries it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memhint.objects.domain import DomainObservation
from memhint.objects.lever import Action, LeverName
from memhint.objects.ownership import HOST
from memhint.objects.policy import Mode, Policy
from memhint.objects.relief import Relief
from memhint.planner.dedup import DedupPlan
from memhint.planner.relief.relieve import CALM, PRESSED
from memhint.planner.relief.tuning import words_of


def actions_of(
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    dedup: DedupPlan,
    relief: Relief,
    *,
    calm: bool,
) -> tuple[Action, ...]:
    """All of it, in the order in which it is done.

    :param calm: no rung of the ladder is entered
    """
    return (
        *_reporting_actions(domains, policies),
        *_dedup_actions(domains, dedup),
        *relief_actions(relief, calm=calm),
    )


def relief_actions(relief: Relief, *, calm: bool = False) -> tuple[Action, ...]:
    """What the ladder asks for, and what idle VMs are asked for on a calm host."""
    why = CALM if calm else PRESSED
    found = [
        *(
            Action(LeverName.REPORTING, uuid, words_of(tuning), f"policy, or {why}")
            for uuid, tuning in relief.tuning.items()
        ),
        *(Action(LeverName.CACHE, uuid, f"{size >> 20} MiB back", why) for uuid, size in relief.cache.items()),
        *(
            Action(LeverName.RECYCLER, uuid, f"{size >> 20} MiB a second", f"policy, or {why}")
            for uuid, size in relief.recycler.items()
        ),
        *(Action(LeverName.BALLOON, uuid, f"{size >> 20} MiB left", why) for uuid, size in relief.balloon.items()),
        *(Action(LeverName.SWAP_OUT, uuid, f"{size >> 20} MiB out", why) for uuid, size in relief.swap_out.items()),
        *(
            Action(LeverName.THP, uuid, f"{size >> 20} MiB of huge pages", "policy, or it was split and works again")
            for uuid, size in relief.thp.items()
        ),
    ]
    if relief.migrate is not None:
        found.append(Action(LeverName.MIGRATION, relief.migrate, "another host", why))
    return tuple(found)


def _reporting_actions(domains: Sequence[DomainObservation], policies: Mapping[str, Policy]) -> list[Action]:
    actions = []
    for domain in domains:
        policy = policies[domain.uuid]
        wish = policy.reporting
        if wish is not Mode.AUTO:
            origin = policy.settings["reporting"].origin
            actions.append(Action(LeverName.REPORTING, domain.uuid, wish, f"asked for by {origin}"))
    return actions


def _dedup_actions(domains: Sequence[DomainObservation], dedup: DedupPlan) -> list[Action]:
    """Out first, in last, so that no VM merges without having opted in; without a member there is nothing to do."""
    if not dedup.members:
        return []
    outside = [one.uuid for one in domains if one.uuid not in dedup.members]
    return [
        *(Action(LeverName.DEDUP, uuid, Mode.OFF, "did not opt in, or may not") for uuid in outside),
        *(Action(LeverName.DEDUP, uuid, Mode.ON, _why_in(uuid, dedup)) for uuid in sorted(dedup.members)),
        Action(LeverName.DEDUP, HOST, Mode.ON, f"{len(dedup.members)} VMs merge"),
    ]


def _why_in(uuid: str, dedup: DedupPlan) -> str:
    return "the estimate says that it pays" if uuid in dedup.auto.members else "opted in"
