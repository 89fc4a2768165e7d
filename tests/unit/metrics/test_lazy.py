from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["memhint.agent.service", "memhint.controller.service"])
def test_a_process_that_shows_no_metrics_does_not_load_what_they_need(module: str) -> None:
    script = f"import sys, {module}; print([name for name in ('prometheus_client', 'cheroot') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
