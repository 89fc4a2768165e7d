"""`memhint simulate`: fleets and traces through the planner, against fixed ratios."""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cliff.lister import Lister

from memhint.cli.base import HostCommand
from memhint.cli.errors import CliError, Exit
from memhint.cli.simulate_fleet import DAYS, HOSTS, SEED_STEP, STEP, generated, traced
from memhint.cli.simulate_table import MACHINE, Found, Result, heading, machine_row, rows, titles
from memhint.objects.units import GIB
from memhint.planner.settings import PlannerSettings

if TYPE_CHECKING:
    from memhint.planner.earned_ratio import Earned
    from memhint.planner.growth import GrowthTable
    from memhint.sim.engine import SimulationResult
    from memhint.sim.fleet import Fleet
    from memhint.sim.policy import Planned

_DAY = 86400.0  # seconds
_OTHER_SEED = 1000  # added to the seed of a fleet that is learnt from
_EARNS = 31.0  # days of that fleet after which hosts have earned what they can: four weeks, once they are full
_NEEDS = ("numpy", "pyarrow", "matplotlib")
_KINDS = ("diurnal", "bursty", "storm", "office", "cron", "hot", "leak", "flash", "antiphase", "tails", "seed")
_ARMS = ("none", "ksm", "returned")
_STRATEGIES = ("most-headroom", "first-fit")
_DRAWS = (".png", ".svg", ".pdf")


class Simulate(HostCommand, Lister):
    """Simulate a fleet under the planner and under fixed ratios, and compare what fits and what goes wrong."""

    examples = """\
examples:
  memhint simulate                                    100 hosts for 30 days, days and nights
  memhint simulate --generate storm --groups          half of the VMs use all they have once a week
  memhint simulate --generate seed --hosts 1 --days 2
  memhint simulate --needed --hosts 20 --days 7       how many hosts each policy needs for the same VMs
  memhint simulate --needed --hosts 20 --days 7 --seeds 3     the same with seeds 1, 2 and 3: mean and worst
  memhint simulate --generate storm --guaranteed 0.2  a fifth of the VMs is guaranteed
  memhint simulate --policy peak --lose-past-every 7  every agent forgets all it knew once a week
  memhint simulate --trace fastStorage/ --plot out.png
  memhint simulate --trace rnd/2013-7 --overlay --hosts 24 --sticky
  memhint simulate --trace use.parquet --policy nominal --policy quantile:12 --json
  memhint simulate --hosts 1000 --policy nominal --policy peak:24 --max-ratio 3 --allow-unbacked 128

A policy is nominal, oracle, static[:RATIO], peak[:HOURS] (half-life), quantile[:HOURS] or n_sigma[:HOURS] (window), or
growth[:HOURS], which is peak with a growth table, learnt from --learn or, of a generated fleet, from one of another
seed. earned[:RATIO] is growth on hosts that have earned up to this ratio on that other fleet. The planner's settings
are those of the configuration, where an option here does not say otherwise. A trace is CSV or Parquet with the columns
vm, time_s, assigned_mib and demand_mib, or GWA-T-12 (Bitbrains). See doc/simulation.md.
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--trace", type=Path, metavar="FILE", help="the VMs of a trace: a file, or a directory")
        what.add_argument("--generate", choices=_KINDS, default="diurnal", help="generated VMs (default: diurnal)")
        parser.add_argument(
            "--overlay", action="store_true", help="of a trace: VMs come and go as generated ones do, with its courses"
        )
        parser.add_argument(
            "--learn", type=Path, metavar="FILE", help="with --overlay: the trace that policy growth learns from"
        )
        parser.add_argument(
            "--sticky", action="store_true", help="what a VM touched never comes back: hosts without any lever"
        )
        parser.add_argument("--arm", choices=_ARMS, help="with seed: what becomes of freed memory (default: returned)")
        parser.add_argument("--hosts", type=_count, help=f"how many (default: {HOSTS}; of a trace, by its VMs)")
        parser.add_argument("--days", type=_positive, help=f"how long (default: {DAYS:g}; a trace has its own)")
        parser.add_argument(
            "--step", type=_positive, help=f"seconds of a step (default: {STEP:g}; with seed {SEED_STEP:g})"
        )
        parser.add_argument("--policy", action="append", metavar="NAME", help="may be said more than once")
        parser.add_argument(
            "--needed", action="store_true", help="find the fewest hosts on which each policy places 98 %% of the VMs"
        )
        parser.add_argument("--strategy", choices=_STRATEGIES, default=_STRATEGIES[0], help="who gets a VM")
        parser.add_argument(
            "--groups", action="store_true", help="the planner knows whose VMs come in a storm together"
        )
        parser.add_argument(
            "--guaranteed",
            type=_share,
            metavar="SHARE",
            help="of the VMs, 0 to 1, that are of class guaranteed",
        )
        parser.add_argument(
            "--lose-past-every",
            type=_positive,
            metavar="DAYS",
            help="so often the agent of each host starts without its store, one host after the other",
        )
        parser.add_argument("--seed", type=_seed, default=1, help="of all that is random (default: 1)")
        parser.add_argument(
            "--seeds", type=_count, default=1, help="so many, from --seed on: the mean and the worst of each figure"
        )
        parser.add_argument("--offered", type=_positive, help="memory that VMs ask for, in multiples of the hosts'")
        parser.add_argument("--memory", type=_positive, metavar="GIB", help="of a host (default: 256)")
        parser.add_argument("--swap", type=_size, metavar="GIB", help="of a host (default: 128)")
        parser.add_argument("--allow-unbacked", type=_size, metavar="GIB", help="what may be promised beyond swap")
        parser.add_argument("--max-ratio", type=_positive, help="the most that may be promised, in parts of memory")
        parser.add_argument(
            "--storm-percent", type=_percent, help="of the VMs that may come back at once: what is kept for that"
        )
        parser.add_argument("--processes", type=_count, help="at most so many (default: one per CPU)")
        parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the course: .png, .svg or .pdf")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        """Policies with what came of them: bytes and shares for machines, a table for people."""
        for name in _NEEDS:
            _import(name)
        if parsed_args.plot is not None and parsed_args.plot.suffix not in _DRAWS:
            raise CliError(Exit.USAGE, f"--plot {parsed_args.plot}: the name must end in {', '.join(_DRAWS)}")
        if parsed_args.plot is not None and parsed_args.seeds > 1:
            raise CliError(Exit.USAGE, "--plot is of one seed: leave --seeds out")
        settings = self._settings(parsed_args)
        seeds = range(parsed_args.seed, parsed_args.seed + parsed_args.seeds)
        try:
            found = [self._with_seed(parsed_args, settings, seed) for seed in seeds]
        except MemoryError:
            raise CliError(
                Exit.FAILED, "this takes more memory than there is: ask for fewer hosts, days, or a longer --step"
            ) from None
        if self.app.stderr.isatty():
            self.app.stderr.write("\r\033[K")
        if self.table(parsed_args) is None:
            return MACHINE, [machine_row(one, result) for one in found for result in one.results]
        self.formatter = self.table(parsed_args)
        self.app.stdout.write(f"{heading(found, needed=parsed_args.needed)}\n")
        with_class = parsed_args.guaranteed is not None
        body = rows([one.results for one in found], parsed_args.needed, with_class)
        return titles(parsed_args.needed, with_class), body

    def _with_seed(self, parsed_args: argparse.Namespace, settings: PlannerSettings, seed: int) -> Found:
        from memhint.sim.gain import host_gains, memory_gains, oracle_shares

        words = argparse.Namespace(**{**vars(parsed_args), "seed": seed})
        before = (seed - parsed_args.seed) / parsed_args.seeds

        def progress(share: float) -> None:
            self._progress(before + share / parsed_args.seeds)

        outcomes, fleet, seconds = self._compare(words, settings, progress)
        if parsed_args.plot is not None:
            self._plot(parsed_args.plot, fleet, outcomes, settings)
        gains = (host_gains if parsed_args.needed else memory_gains)(outcomes)
        told = zip(outcomes, gains, oracle_shares(outcomes, gains), strict=True)
        return Found(seed, fleet, [Result(*one, outcomes[0]) for one in told], seconds)

    def _settings(self, parsed_args: argparse.Namespace) -> PlannerSettings:
        from memhint.agent.settings import planner_settings

        settings = planner_settings(self.conf())
        if parsed_args.allow_unbacked is not None:
            settings = replace(settings, allow_unbacked=int(parsed_args.allow_unbacked * GIB))
        if parsed_args.max_ratio is not None:
            settings = replace(settings, max_ratio=parsed_args.max_ratio)
        if parsed_args.storm_percent is not None:
            settings = replace(settings, storm_percent=parsed_args.storm_percent)
        return settings

    def _compare(
        self, parsed_args: argparse.Namespace, settings: PlannerSettings, progress: Callable[[float], None]
    ) -> tuple[list[SimulationResult], Fleet, float]:
        from memhint.sim import policy
        from memhint.sim.compare import compare
        from memhint.sim.engine import Strategy

        begin = time.monotonic()
        try:
            policies = policy.parse(
                parsed_args.policy or policy.DEFAULT,
                settings,
                self._learner(parsed_args, settings.overhead),
                self._earner(parsed_args, settings),
            )
        except policy.PolicyError as error:
            raise CliError(Exit.USAGE, f"--policy: {error}") from error
        fleet = self._fleet(parsed_args)
        outcomes = compare(
            fleet,
            policies,
            settings,
            strategy=Strategy(parsed_args.strategy),
            groups=parsed_args.groups,
            processes=parsed_args.processes,
            fewest=parsed_args.needed,
            progress=progress,
        )
        return outcomes, fleet, time.monotonic() - begin

    def _learner(self, parsed_args: argparse.Namespace, overhead: int) -> Callable[[], GrowthTable] | None:
        """What learns a growth table from another fleet than the one that is simulated."""
        if parsed_args.trace is not None and parsed_args.learn is None:
            return None

        def learnt() -> GrowthTable:
            from memhint.sim.growth import learn

            return learn(self._other(parsed_args, parsed_args.days), overhead)

        return learnt

    def _earner(
        self, parsed_args: argparse.Namespace, settings: PlannerSettings
    ) -> Callable[[Planned], tuple[Earned, ...]] | None:
        """What tells what the hosts of another fleet have earned in a month."""
        if parsed_args.trace is not None and parsed_args.learn is None:
            return None

        def earned(policy: Planned) -> tuple[Earned, ...]:
            from memhint.sim.earning import earn
            from memhint.sim.engine import Strategy

            fleet = self._other(parsed_args, max(parsed_args.days or 0.0, _EARNS))
            return earn(fleet, policy, settings, Strategy(parsed_args.strategy))

        return earned

    def _other(self, parsed_args: argparse.Namespace, days: float | None) -> Fleet:
        """All of another month, or so many days of another seed."""
        other = {"trace": parsed_args.learn, "seed": parsed_args.seed + _OTHER_SEED, "days": days}
        if parsed_args.learn is not None:
            other["days"] = None
        return self._fleet(argparse.Namespace(**{**vars(parsed_args), **other}))

    def _fleet(self, parsed_args: argparse.Namespace) -> Fleet:
        from memhint.sim.guaranteed import with_guaranteed

        if parsed_args.trace is None:
            if parsed_args.overlay:
                raise CliError(Exit.USAGE, "--overlay is of --trace")
            if parsed_args.learn is not None:
                raise CliError(Exit.USAGE, "--learn is of --trace with --overlay")
            fleet = generated(parsed_args)
        else:
            if parsed_args.learn is not None and not parsed_args.overlay:
                raise CliError(Exit.USAGE, "--learn is of --trace with --overlay")
            fleet, words = traced(parsed_args)
            if words:
                self.app.stderr.write(f"{parsed_args.trace}: {words}\n")
        if parsed_args.sticky:
            fleet = replace(fleet, sticky=True, name=f"{fleet.name}, sticky")
        if parsed_args.guaranteed is not None:
            fleet = with_guaranteed(fleet, parsed_args.guaranteed, parsed_args.seed)
        if parsed_args.lose_past_every is not None:
            days = parsed_args.lose_past_every
            name = f"{fleet.name}, past lost every {days:g} d"
            fleet = replace(fleet, lose_past_every=days * _DAY, name=name)
        return fleet

    def _progress(self, share: float) -> None:
        if self.app.stderr.isatty():
            self.app.stderr.write(f"\rsimulating: {100 * share:.0f} %")
            self.app.stderr.flush()

    def _plot(self, path: Path, fleet: Fleet, outcomes: Sequence[SimulationResult], settings: PlannerSettings) -> None:
        from memhint.sim.plot import plot

        try:
            plot(path, fleet, outcomes, settings)
        except OSError as error:
            raise CliError(Exit.FAILED, f"--plot {path}: {error.strerror or error}") from error


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise CliError(
            Exit.FAILED, f"a simulation needs {name}, which is not installed: pip install 'memhint[sim]'"
        ) from error


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


def _percent(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 100")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return value


def _positive(text: str) -> float:
    value = _size(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _size(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to below 1e9")
    return value


for _kind, _name in (
    (_count, "whole number"),
    (_seed, "whole number"),
    (_percent, "percentage"),
    (_share, "share"),
    (_positive, "number"),
    (_size, "number"),
):
    _kind.__name__ = _name  # argparse shows it where a word is no number at all
