"""How long an attack lasts, and what it may cost others.

The drill by itself (`make drill`) has the machine for itself and holds what doc/threat-model.md says. Among all other
tests an attack is shorter, and others may be late for many reasons: there it shows that nothing stops, not how fast.
"""

import os

WHOLE = "MEMHINT_DRILL" in os.environ

HEALTHY_WITHIN = 1.0 if WHOLE else 60.0
"""Seconds for an answer of /healthz, and for an agent's answer to a question."""

HEALTHY_WORK = 4000
"""What the API may work between the question and its answer of /healthz: so many times the work of that answer alone.

The attacks here are as many requests as that, so whatever takes turns stays far below it; 1,000 were seen.
"""

PERIOD, LASTS = (10.0, 30.0) if WHOLE else (2.0, 6.0)
"""Seconds between two reports of an honest host, and of an attack: more than the periods that a report may be old."""

OLD = 2 * PERIOD if WHOLE else 120.0
"""Seconds that the newest report of an honest host may be old."""
