"""What a tier of slower memory would give, for people: its size as they type it, and what the answer says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from memhint.cli.words import size
from memhint.objects.counted import counted
from memhint.objects.tier_sizing import TierBound
from memhint.objects.units import MIB, parse_size

BOUNDS = {
    TierBound.ACTIVE: "what is active takes half of DRAM",
    TierBound.SIZE: "DRAM and tier are full",
}


def tier_size(text: str) -> int:
    """Bytes of a size such as 512GiB, for argparse.

    :raises ArgumentTypeError: when it is none, or nothing
    """
    try:
        found = parse_size(text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if found < MIB:
        raise argparse.ArgumentTypeError(f"{text!r} is {found} bytes, which is no tier: write 512GiB")
    return found


def add_tier(
    parser: argparse.ArgumentParser, of: str = "", *, unsaid: str = "a quarter, a half and all of DRAM"
) -> None:
    """Take ``--tier``.

    :param of: whom it is told of, where that is not the one host
    :param unsaid: the sizes that are told of without it
    """
    text = f"what a tier of slower memory of this size would give{of} (default: {unsaid})"
    parser.add_argument("--tier", metavar="SIZE", type=tier_size, help=text)


def bound_words(bound: Any) -> str:
    """What keeps more VMs from fitting, as the API names it."""
    return BOUNDS.get(bound, "a rule of a newer memhint")


def tier_rows(sizing: Mapping[str, Any] | None) -> dict[str, str]:
    """Rows of a host's `tier` as the API tells it; where active memory is not measured they say so."""
    if sizing is None:
        return {"Active": "unknown: [active] source has not read what any VM uses"}
    load = sizing["load"]
    used = f"{size(load['used'])} that {counted(load['vms'], 'VM has', 'VMs have')}"
    rows = {"Active": f"{size(load['active'])} of {used}, {load['read']} of them read"}
    for gain in sizing["gains"]:
        rows[f"With a tier of {size(gain['tier'])}"] = (
            f"{gain['vms']:.1f} VMs like these, {gain['without']:.1f} without it: {bound_words(gain['bound'])}"
        )
    return rows
