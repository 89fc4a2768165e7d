"""The demo on an OpenStack stands in nobody's way, and what is wrong with its result can be looked into."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.openstack import demo
from lab.openstack.packing import Packed, Settings
from lab.state import check_name


class Fake:
    """In place of what is installed, of a stack and of its lab."""

    names: list[str]

    def __init__(self, *_: object, name: str = "", **given: object) -> None:
        if name:
            Fake.names.append(check_name(name))
            self.logs = given["logs"]
            self.lab = SimpleNamespace(keep_logs=lambda: Path(str(self.logs)) / name)

    def __enter__(self) -> Fake:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def extras(self, _: int) -> None:
        pass

    def attach(self, _: Fake) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the demo is to have found."""
    found = SimpleNamespace(packed=None)
    Fake.names = []
    for name in ("Stack", "Installed", "Packing"):
        monkeypatch.setattr(demo, name, Fake)
    monkeypatch.setattr(demo, "_show", lambda *_: found.packed)
    return found


def packed(**given: Any) -> Packed:
    return replace(Packed(), **{"nominal": 4, "running": 8, **given})


def test_two_runs_at_a_time_do_not_take_one_name(shown: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    shown.packed = packed()
    for _ in range(2):
        demo.run("34", Settings())
    assert len(set(Fake.names)) == 2
    assert "is kept in" not in capsys.readouterr().out


def test_logs_are_kept_where_the_result_is_not_as_it_should_be(
    shown: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    shown.packed = packed(running=4)
    demo.run("34", Settings())
    assert f"is kept in demo-out/logs/{Fake.names[0]}" in capsys.readouterr().out
    assert "among the logs in demo-out/logs" in demo.problems(shown.packed)[0]
