"""Where the agent logs once its configuration was read again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memhint.agent.build import Agent
from memhint.agent.service import AgentService
from memhint.conf.load import load
from memhint.store.host_store import HostStore

pytestmark = pytest.mark.usefixtures("logs_as_before")

NOTHING = SimpleNamespace(settle=lambda seconds: None, close=lambda: None, inherit=lambda before: None)


@pytest.mark.parametrize(("named", "found"), [(None, "memhint-agent.log"), ("named.log", "named.log")])
def test_it_logs_where_it_would_after_a_start(
    named: str | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "memhint.conf"
    file.write_text("[DEFAULT]\nhost_name = host-a\n")
    service = AgentService(load([file]), None if named is None else str(tmp_path / named))
    monkeypatch.setattr(service, "_build", lambda *_: cast("Any", NOTHING))
    file.write_text(f"[DEFAULT]\nhost_name = host-a\nlog_dir = {tmp_path}\n")
    service._reloaded(cast("Agent", NOTHING), cast("HostStore", None))
    assert [path.name for path in tmp_path.glob("*.log")] == [found]
    assert "configuration reloaded" in (tmp_path / found).read_text()
