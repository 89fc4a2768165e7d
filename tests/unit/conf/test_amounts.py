"""Amounts of memory in the configuration: what is accepted can be reported."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from oslo_config import cfg

from memhint.agent.settings import planner_settings, slot
from memhint.conf import ConfigError, load
from memhint.conf.opts import list_opts
from memhint.objects import codec
from memhint.objects.plan import Plan
from memhint.objects.policy import effective
from memhint.objects.ranges import MOST, Size, Slot
from memhint.objects.report import DOMAINS_MAX
from memhint.objects.units import GIB, KIB, MIB
from memhint.planner.plan import plan
from memhint.planner.state import start
from tests.unit import builders

UNITS = {"kib": KIB, "mib": MIB, "gib": GIB}


def unit_of(option: cfg.Opt) -> int | None:
    return next((size for unit, size in UNITS.items() if unit in option.dest.split("_")), None)


AMOUNTS = [(group, option) for group, options in list_opts() for option in options if unit_of(option) is not None]


def loaded(tmp_path: Path, values: dict[tuple[str, str], int]) -> cfg.ConfigOpts:
    path = tmp_path / "memhint.conf"
    path.write_text("".join(f"[{group}]\n{option} = {value}\n" for (group, option), value in values.items()))
    return load([path])


def most_of(option: cfg.Opt) -> int:
    return int(option.type.max)


@pytest.mark.parametrize(("group", "option"), AMOUNTS, ids=lambda one: getattr(one, "dest", one))
def test_every_amount_has_a_bound_whose_bytes_a_record_takes_and_that_is_told(
    tmp_path: Path, group: str, option: cfg.Opt
) -> None:
    assert option.type.max is not None
    assert most_of(option) * unit_of(option) <= MOST
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, {(group, option.dest): most_of(option) + 1})
    assert caught.value.option == f"[{group}] {option.dest}"
    assert caught.value.accepted.endswith(f" to {most_of(option)}")


def test_ten_to_the_tenth_mib_that_nothing_backs_are_not_accepted(tmp_path: Path) -> None:
    """They were, and no controller could read what this host reported."""
    with pytest.raises(ConfigError, match=r"\[host\] allow_unbacked_mib: '10000000000' is not accepted"):
        loaded(tmp_path, {("host", "allow_unbacked_mib"): 10**10})


def test_a_plan_with_the_largest_amounts_can_be_read(tmp_path: Path) -> None:
    # Of a pair of which one is below the other the larger is the largest.
    largest = {(group, one.dest): most_of(one) - one.dest.endswith("_exit_mib") for group, one in AMOUNTS}
    conf = loaded(tmp_path, largest)
    settings = planner_settings(conf)
    vms = [builders.domain_observation(uuid=uuid, facts=builders.facts(memory=MOST // 2)) for uuid in ("a", "b")]
    policies = {one.uuid: effective({}) for one in vms}
    state = start(settings)
    for host in (builders.host_observation(), builders.host_observation(memory=builders.host_memory(swap_total=MOST))):
        planned = plan(host, vms, policies, state, 10.0, settings)
        assert codec.parse_as(codec.dump(planned.plan), Plan) == planned.plan
        state = planned.state
    assert msgspec.convert(slot(conf), Slot) == slot(conf)
    assert msgspec.convert(settings.overhead, Size) * DOMAINS_MAX < 2**52
