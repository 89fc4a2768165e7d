"""An event: one pull of one lever, kept."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.lever import LeverName
from memhint.objects.ranges import Moment
from memhint.objects.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Event:
    """One pull of one lever. ``at`` is unix seconds."""

    at: Moment
    host: str
    subject: str
    lever: LeverName
    desired: str
    verdict: Verdict
