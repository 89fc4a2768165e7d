"""What is wished and seen of a lever, what is to be pulled, and what is absent: parts of hosts and VMs."""

from __future__ import annotations

from memhint.api.schemas.records import record, schema_of
from memhint.objects.lever import Action, LeverName, Observed
from memhint.objects.verdict import Answer, Reason

_TEXT = schema_of(str)
VERDICT = record({"answer": schema_of(Answer), "reason": schema_of(Reason), "detail": _TEXT})
LEVER = record(
    {
        "lever": schema_of(LeverName),
        "subject": _TEXT,
        "desired": _TEXT,
        "observed": schema_of(Observed),
        **VERDICT["properties"],
    }
)
ACTION = schema_of(Action)
GAP = record({"what": _TEXT, "reason": _TEXT, "detail": _TEXT})
