"""Native threads, said before anything of Nova chooses otherwise: its API would patch everything for eventlet."""

from __future__ import annotations

import os

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")

from nova import monkey_patch

if hasattr(monkey_patch, "patch"):  # 31 does it when it is imported
    monkey_patch.patch()
