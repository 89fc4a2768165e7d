"""Every lever is declared once, and what is made of levers elsewhere keeps to the declarations."""

from __future__ import annotations

from typing import Any, cast

import pytest
from oslo_config import cfg

from memhint.agent.build_levers import build_levers
from memhint.agent.guests import Guests, GuestTiming
from memhint.agent.runners.runner import RunnerContext
from memhint.agent.settings import planner_settings
from memhint.conf.load import load
from memhint.conf.opts import static_opts
from memhint.kernel.clearings import Clearings
from memhint.levers.arrivals import Arrivals
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName
from memhint.objects.levers import LEVERS, Declaration, place_of
from memhint.objects.policy import KEYS
from memhint.objects.words import read_word
from tests.unit.kernel.fake_root import FakeRoot
from tests.unit.lever_rooms import LISTED, named_by, table
from tests.unit.levers_table import PAGE, row_of

OF_NO_LEVER = {"overcommit", "group"}
"""Policy keys that are the planner's alone."""


@pytest.fixture
def conf(tmp_path: Any) -> cfg.ConfigOpts:
    file = tmp_path / "memhint.conf"
    file.write_text("[DEFAULT]\nhost_name = host-a\n")
    return load([str(file)])


def test_every_lever_is_declared_once() -> None:
    assert set(LEVERS) == set(LeverName)
    assert [place_of(name) for name in LEVERS] == list(range(len(LEVERS)))
    assert place_of(read_word(LeverName, "a newer one")) == len(LEVERS)


def test_every_policy_key_belongs_to_a_lever_or_to_the_planner() -> None:
    declared = {key for one in LEVERS.values() for key in (one.wish, *one.keys) if key is not None}
    assert declared | OF_NO_LEVER == set(KEYS)
    assert not declared & OF_NO_LEVER


def test_every_rung_that_asks_somebody_pulls_one_lever() -> None:
    pulled = [rung for one in LEVERS.values() for rung in one.rungs]
    assert sorted(pulled) == sorted(set(Rung) - {Rung.ADMISSION})


def test_the_groups_of_options_are_there() -> None:
    groups = {name for name, _ in static_opts()}
    assert {group for one in LEVERS.values() for group in one.options} <= groups


def test_an_agent_runs_every_lever_once(conf: cfg.ConfigOpts, tmp_path: Any) -> None:
    nothing = cast("Any", None)
    context = RunnerContext(
        conf=conf,
        settings=planner_settings(conf),
        root=FakeRoot(tmp_path / "root").kernel,
        boot="boot",
        ledger=nothing,
        caller=nothing,
        slow=nothing,
        counting=nothing,
        clearings=Clearings(),
        heat=lambda _: {},
        ranges=lambda *_: None,
        arrivals=Arrivals(),
        guests=Guests(nothing, GuestTiming()),
        reclaims=nothing,
        note=lambda _: None,
        dry_run=True,
    )
    runners = build_levers(context)
    named = [name for runner in runners for name in runner.names]
    assert sorted(named) == sorted(LEVERS)
    assert sum(runner.share for runner in runners) <= 1.0


@pytest.mark.parametrize("one", LEVERS.values(), ids=lambda one: one.name)
def test_the_page_of_levers_has_its_row(one: Declaration) -> None:
    assert row_of(one) in PAGE.read_text().splitlines(), f"write into {PAGE.name}:\n{row_of(one)}"


OUTSIDE = {
    LeverName.DEDUP: 4,  # its settings, its state, what looks for equal pages, and an option that others share
    LeverName.RECYCLER: 2,
    LeverName.THP: 2,
    LeverName.SWAP_OUT: 2,
}
"""How many files name a lever outside of its room and of the two lists; of what is not here, none."""


@pytest.mark.parametrize("lever", [name for name in LeverName if name is not LeverName.LADDER])
def test_a_lever_is_named_in_its_own_room(lever: LeverName) -> None:
    files = named_by(lever)
    assert len(files.keys() - LISTED) <= OUTSIDE.get(lever, 0), table([lever])
    assert all(lines == 1 for path, lines in files.items() if path in LISTED), table([lever])
