"""The name of one agent's life, made so that the next life's name comes after it."""

from __future__ import annotations

import re

_FORM = re.compile(r"^(\d{15})-[0-9a-f]{8}$")


def new_epoch(now: float, before: str | None, mark: str) -> str:
    """A name that comes after ``before``, even where the host's clock was set back meanwhile.

    :param now: unix seconds
    :param before: the last epoch that this host remembers
    :param mark: eight hexadecimal digits that tell two apart which began in the same millisecond
    """
    return f"{max(int(now * 1000), epoch_rank(before or '') + 1):015d}-{mark}"


def epoch_rank(epoch: str) -> int:
    """Where an epoch stands among those of its host; 0 for a name of another form."""
    found = _FORM.match(epoch)
    return int(found.group(1)) if found else 0
