"""The fleet that `memhint simulate` is asked for: generated, or read from a trace."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from memhint.cli.errors import CliError, Exit
from memhint.objects.units import GIB

if TYPE_CHECKING:
    from memhint.sim.fleet import Fleet, HostShape

HOSTS, DAYS, STEP, SEED_STEP = 100, 30.0, 300.0, 30.0


def generated(parsed_args: argparse.Namespace) -> Fleet:
    """The VMs that ``--generate`` makes.

    :raises CliError: on an option that is not of these
    """
    from memhint.sim import published
    from memhint.sim.generate import Workload, generate

    kind = Workload.SEED if parsed_args.generate == "seed" else None
    if parsed_args.arm is not None and kind is None:
        raise CliError(Exit.USAGE, "--arm is of --generate seed")
    return generate(
        Workload(parsed_args.generate),
        hosts=parsed_args.hosts or HOSTS,
        days=parsed_args.days or DAYS,
        step=parsed_args.step or (SEED_STEP if kind else STEP),
        seed=parsed_args.seed,
        shape=_shape(parsed_args),
        offered=parsed_args.offered or published.OFFERED,
        arm=parsed_args.arm or "returned",
    )


def traced(parsed_args: argparse.Namespace) -> tuple[Fleet, str]:
    """A trace's fleet, and what is to be said of how it was read.

    :raises CliError: on a trace that cannot be read, or an option that is not of these
    """
    from memhint.sim import published, trace
    from memhint.sim.overlay import overlay

    if parsed_args.arm is not None:
        raise CliError(Exit.USAGE, "--arm is of --generate seed")
    if parsed_args.days is not None and not parsed_args.overlay:
        raise CliError(Exit.USAGE, "--days: a trace has its own length")
    name, step, seed, shape = parsed_args.trace.name, parsed_args.step or STEP, parsed_args.seed, _shape(parsed_args)
    offered, hosts = parsed_args.offered or published.OFFERED, parsed_args.hosts
    try:
        found = trace.read(parsed_args.trace)
        if parsed_args.overlay:
            fleet = overlay(
                found.courses,
                name=f"{name}, overlaid",
                hosts=hosts or HOSTS,
                step=step,
                seed=seed,
                days=parsed_args.days,
                shape=shape,
                offered=offered,
            )
        else:
            fleet = trace.fleet_of(
                found.courses, name=name, step=step, seed=seed, hosts=hosts, shape=shape, offered=offered
            )
    except ValueError as error:  # a TraceError is one
        raise CliError(Exit.USAGE, str(error)) from error
    return fleet, found.words


def _shape(parsed_args: argparse.Namespace) -> HostShape:
    from memhint.sim.fleet import HostShape

    shape = HostShape()
    if parsed_args.memory is not None:
        shape = replace(shape, pool=int(parsed_args.memory * GIB))
    if parsed_args.swap is not None:
        shape = replace(shape, swap=int(parsed_args.swap * GIB))
    if shape.pool <= shape.other:
        raise CliError(Exit.USAGE, f"--memory must be above the {shape.other / GIB:g} GiB of the host's other work")
    return shape
