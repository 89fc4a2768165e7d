"""The OpenStack lab's command line. Exit codes are those of `command_line`."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lab import packages as debian
from lab import patched, paths, programs
from lab.command_line import add_command, byte_size, parser_of, run_command
from lab.errors import LabError
from lab.openstack.extras import PARTS, Extras
from lab.openstack.releases import NEWEST
from lab.openstack.stack import Stack
from lab.openstack.status import status
from lab.progress import shown_progress
from lab.sizes import GIB, format_size
from lab.state import check_name
from lab.teardown import teardown

EXAMPLES = """\
examples:
  lab/openstack/lab up                              two computes with libvirt, on the newest release
  lab/openstack/lab up --release 31 --fakes 4       Nova 31, and four computes more that only pretend
  eval "$(lab/openstack/lab env)"                   OS_* variables for clients
  lab/openstack/lab status --json
  lab/openstack/lab down                            back to nothing
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    return run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("lab/openstack/lab", "A real OpenStack on one machine.", EXAMPLES)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    up = _command(commands, "up", _up, "start a stack; it stays until `down`")
    up.add_argument("--release", default=NEWEST.nova, help="Nova's major version, or the series (default: %(default)s)")
    up.add_argument("--computes", type=int, default=2, metavar="N", help="with libvirt (default: %(default)s)")
    up.add_argument("--fakes", type=int, default=0, metavar="N", help="that only pretend (default: %(default)s)")
    up.add_argument("--memory", type=byte_size, default=5 * GIB, metavar="SIZE", help="of each compute (default: 5GiB)")
    up.add_argument(
        "--reserved",
        type=byte_size,
        default=GIB,
        metavar="SIZE",
        help="of it, what Nova leaves to the host (default: 1GiB)",
    )
    up.add_argument(
        "--kernel",
        choices=(*debian.KERNEL_SERIES, *patched.KERNELS),
        default=next(iter(debian.KERNEL_SERIES)),
        help="of the guests",
    )
    up.add_argument("--agent", choices=patched.AGENTS, default="stock", help="of the guests (default: %(default)s)")
    up.add_argument("--package", action="append", default=[], metavar="PATH", help="installed beside Nova")
    up.add_argument(
        "--nova", action="append", default=[], metavar="PART=FILE", help=f"more configuration; of {', '.join(PARTS)}"
    )
    up.add_argument("--debug", action="store_true", help="Nova logs what it does in detail")
    look = _command(commands, "status", _status, "show services and computes")
    look.add_argument("--json", action="store_true", help="for programs; sizes in bytes")
    env = _command(commands, "env", _env, "print OS_* variables for a shell")
    env.add_argument("--user", default="admin", help="(default: %(default)s)")
    env.add_argument("--project", default="admin", help="(default: %(default)s)")
    _command(commands, "down", _down, "end a stack and remove all it made")
    return parser


def _command(commands: Any, name: str, run: Any, help_text: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, run, help_text)
    parser.add_argument("--name", default="openstack", help="name of the stack (default: %(default)s)")
    return parser


def _extras(options: argparse.Namespace) -> Extras:
    nova = {}
    for word in options.nova:
        part, _, file = word.partition("=")
        if part not in PARTS or not Path(file).is_file():
            raise LabError(f"--nova {word}: write PART=FILE, the part being one of {', '.join(PARTS)}")
        nova[part] = Path(file).read_text()
    return Extras(packages=tuple(str(Path(one).resolve()) for one in options.package), nova=nova)


def _up(options: argparse.Namespace) -> int:
    programs.require_root()
    with shown_progress() as progress:
        stack = Stack(
            release=options.release, computes=options.computes, fakes=options.fakes, memory=options.memory,
            reserved=options.reserved, kernel=options.kernel, agent=options.agent, extras=_extras(options),
            name=options.name, debug=options.debug, progress=progress,
        )  # fmt: skip
        stack.up()
    return _show(stack)


def _status(options: argparse.Namespace) -> int:
    stack = Stack.attach(options.name)
    if options.json:
        print(json.dumps(status(stack), indent=2))
        return 0
    return _show(stack)


def _show(stack: Stack) -> int:
    data = status(stack)
    console = Console()
    table = Table(title=f"stack {data['name']}: Nova {data['release']}", title_justify="left")
    for column in ("service", "process", "address"):
        table.add_column(column)
    for service in data["services"]:
        table.add_row(service["name"], str(service["pid"] or "ended"), service["address"] or "-")
    console.print(table)
    computes = Table()
    for column in ("compute", "memory", "used", "VMs", "ratio", "libvirt"):
        computes.add_column(column)
    for one in data["computes"]:
        computes.add_row(
            one["name"], format_size(one["memory"]), format_size(one["used"]) if one["used"] is not None else "-",
            str(one["vms"]), str(one["ratio"]), one["uri"] or "pretends",
        )  # fmt: skip
    console.print(computes)
    console.print(f'Clients: eval "$(lab/openstack/lab env --name {data["name"]})"')
    return 0


def _env(options: argparse.Namespace) -> int:
    for name, value in Stack.attach(options.name).environment(options.user, options.project).items():
        print(f"export {name}={shlex.quote(value)}")
    # A proxy would be asked for addresses that only this machine has.
    print("unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY")
    return 0


def _down(options: argparse.Namespace) -> int:
    programs.require_root()
    ended = teardown(paths.labs_dir() / check_name(options.name))
    print(f"stack {options.name}: {'ended' if ended else 'there is none'}")
    return 0
