"""What the API says of a lever, a gap, a setting or a hold, in the words of the commands on this host.

A word that only a newer server knows is shown as it is.
"""

from __future__ import annotations

from typing import Any

from memhint.cli import words
from memhint.cli.fleet.columns import text
from memhint.client.client import Item
from memhint.client.errors import BadAnswer
from memhint.objects.codec import RecordDamaged, structure
from memhint.objects.gap import gap_text
from memhint.objects.reclaim import Hold
from memhint.objects.verdict import verdict_text
from memhint.objects.words import other_versions


def verdict_line(found: Item | None) -> str:
    """An answer, its reason, and what to do next."""
    one = found or {}
    return verdict_text(text(one.get("answer")), one.get("reason") or "none", one.get("detail") or "")


def lever_line(found: Item) -> str:
    """A lever's state, and the verdict that the API has beside it."""
    return words.lever_line(text(found.get("observed")), text(found.get("desired")), verdict_line(found))


def gap_lines(one: Item) -> str:
    """The gaps of a VM, one in each line."""
    return words.gap_lines(gaps_of(one))


def gaps_of(one: Item) -> list[str]:
    """The gaps of a host or a VM, each in words."""
    gaps = one.get("gaps") or ()
    return [gap_text(text(gap.get("what")), text(gap.get("reason")), gap.get("detail")) for gap in gaps]


def policy_value(name: str, setting: Any) -> str:
    """A value of a policy and who said so."""
    if not setting or setting.get("origin") is None:
        return "not told yet"
    return words.setting_text(name, str(setting.get("value")), setting["origin"])


def hold_line(seconds: float, found: Item | None) -> str:
    """What was taken again after a reclaim that was to be held for so many seconds.

    :raises BadAnswer: when it cannot be read
    """
    try:
        with other_versions():
            return words.hold_line(seconds, structure(found, Hold) if found else None)
    except RecordDamaged as error:
        raise BadAnswer(f"the API's answer cannot be read: {error}") from error
