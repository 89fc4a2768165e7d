"""The lab's command line. Exit codes are those of `command_line`; `exec` and `shell` pass on that of what they ran."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from lab import kvm, packages, patched, paths, programs
from lab.command_line import add_command, byte_size, parser_of, run_command
from lab.debian_machine import make_machine, release_of, remove_machine, run_in_machine
from lab.debian_root import RELEASES
from lab.errors import StateError
from lab.guest import Guest
from lab.guest_image import KINDS, guest_image
from lab.host import Host
from lab.lab import Lab
from lab.leftovers import scratch, sweep
from lab.progress import shown_progress
from lab.sizes import GIB, format_size
from lab.state import check_name, existing
from lab.status import show, status
from lab.teardown import teardown

EXAMPLES = """\
examples:
  lab/lab up --hosts 1 --guests 6 --memory 1GiB --budget 3GiB   six guests on a host that cannot hold them all
  lab/lab up --name two --hosts 2 --guests 2 --swap 4GiB        two hosts side by side, with disk swap
  lab/lab status --json                                         what runs, for a program to read
  lab/lab run guest-1 alloc a 800                               800 MiB of random content in guest-1
  lab/lab run host-2/guest-1 meminfo                            the same guest name on another host
  lab/lab agent host-1 --set policy.dedup=on                    memhint's agent on it, until Ctrl-C
  lab/lab memhint host-1 set guest-1 reporting=off              a command of memhint to that agent
  lab/lab exec host-1 -- virsh list --all                       inside the host's namespaces
  lab/lab in-debian 13 make demo                                the demo as on a Debian 13 that has nothing yet
  lab/lab down                                                  back to nothing
"""
_CHECKOUT = Path(__file__).resolve().parent.parent


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    return run_command(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("lab/lab", "Real hosts with real guests on one machine.", EXAMPLES)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    up = _command(commands, "up", _up, "start hosts and guests; they stay until `down`")
    up.add_argument("--hosts", type=_count(1), default=1, metavar="N", help="hosts (default: %(default)s)")
    up.add_argument(
        "--guests", type=_count(0), default=6, metavar="N", help="guests on each host (default: %(default)s)"
    )
    up.add_argument(
        "--memory", type=byte_size, default=GIB, metavar="SIZE", help="memory assigned to each guest (default: 1GiB)"
    )
    up.add_argument(
        "--budget", type=byte_size, default=3 * GIB, metavar="SIZE", help="memory of each host (default: 3GiB)"
    )
    up.add_argument(
        "--swap",
        type=byte_size,
        default=0,
        metavar="SIZE",
        help="disk swap of the lab, shared evenly by its hosts (default: none)",
    )
    up.add_argument(
        "--kernel", choices=KINDS, default="6.12", help="guest kernel, or an installed guest (default: %(default)s)"
    )
    up.add_argument("--agent", choices=patched.AGENTS, default="stock", help="guest agent (default: %(default)s)")
    up.add_argument("--emulator", choices=patched.EMULATORS, default="stock", help="QEMU (default: %(default)s)")
    up.add_argument(
        "--release",
        choices=tuple(RELEASES),
        help="Debian's release whose libvirt and QEMU hosts have (default: MEMHINT_LAB_RELEASE, or this machine's own)",
    )
    up.add_argument(
        "--accel",
        choices=kvm.ACCELERATORS,
        default="auto",
        help="auto uses KVM if it really boots a guest (default: %(default)s)",
    )
    up.add_argument("--no-thp", action="store_true", help="no huge pages behind the guests")
    up.add_argument("--no-reporting", action="store_true", help="guests without free page reporting")

    look = _command(commands, "status", _status, "show hosts and guests")
    look.add_argument("--json", action="store_true", help="for programs; sizes in bytes")

    run = _command(commands, "run", _run, "ask the workload program of a guest")
    run.add_argument("guest", metavar="[HOST/]GUEST")
    run.add_argument(
        "request",
        nargs=argparse.REMAINDER,
        metavar="REQUEST",
        help="such as: alloc NAME MIB [zero|random|seed:N], free NAME, meminfo",
    )

    agent = _command(commands, "agent", _agent, "run memhint's agent on a host, until Ctrl-C")
    agent.add_argument("host")
    agent.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="GROUP.OPTION=VALUE",
        help="a setting of memhint.conf; a lab's short times hold for all others (may be repeated)",
    )

    asked = _command(commands, "memhint", _memhint, "run a command of memhint against a host's agent")
    asked.add_argument("host")
    asked.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="such as: domains (default: status)")

    inside = _command(commands, "exec", _exec, "run a command in a host's namespaces")
    inside.add_argument("host")
    inside.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")

    shell = _command(commands, "shell", _shell, "a shell in a host's namespaces")
    shell.add_argument("host")

    down = _command(commands, "down", _down, "end a lab and remove all it made")
    down.add_argument(
        "--all",
        action="store_true",
        help="every lab in the lab directory, also those of running tests, and what killed tests left",
    )

    machine = _command(
        commands,
        "in-debian",
        _in_debian,
        "run a command in a fresh clone on a fresh Debian, and end with its code",
        named=False,
    )
    machine.add_argument(
        "--keep",
        type=Path,
        metavar="DIRECTORY",
        help="where the machine is, or is made and stays with all that gets installed (default: removed at the end)",
    )
    machine.add_argument("release", type=_release, metavar="RELEASE", help="12 or 13")
    machine.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="such as: make demo")

    build = _command(commands, "image", _image, "build guest images, nothing else", named=False)
    build.add_argument("--kernel", choices=KINDS, action="append", help="(default: the distribution's)")
    build.add_argument("--agent", choices=patched.AGENTS, default="stock", help="guest agent (default: %(default)s)")
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], help_text: str, named: bool = True
) -> argparse.ArgumentParser:
    parser = add_command(commands, name, run, help_text)
    if named:
        parser.add_argument("--name", default="lab", help="name of the lab (default: %(default)s)")
    return parser


def _release(text: str) -> str:
    try:
        return release_of(text)
    except StateError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} on")
        return int(text)

    return parse


def _up(options: argparse.Namespace) -> int:
    with shown_progress() as progress:
        lab = Lab(
            hosts=options.hosts,
            guests=options.guests,
            memory=options.memory,
            budget=options.budget,
            swap=options.swap,
            kernel=options.kernel,
            agent=options.agent,
            emulator=options.emulator,
            accel=options.accel,
            name=options.name,
            thp=not options.no_thp,
            reporting=not options.no_reporting,
            progress=progress,
            release=options.release,
        )
        lab.up()
    show(status(lab), Console())
    return 0


def _status(options: argparse.Namespace) -> int:
    data = status(Lab.attach(options.name))
    if options.json:
        print(json.dumps(data, indent=2))
    else:
        show(data, Console())
    return 0


def _run(options: argparse.Namespace) -> int:
    guest = _find_guest(Lab.attach(options.name), options.guest)
    if not options.request:
        raise StateError("no request given: try ping, meminfo, list, or alloc NAME MIB")
    print(json.dumps(guest.work(" ".join(options.request))))
    return 0


def _find_guest(lab: Lab, name: str) -> Guest:
    """The guest called HOST/GUEST, or GUEST where only one host has it."""
    if "/" in name:
        host, _, guest = name.partition("/")
        return lab.host(host).guest(guest)
    found = [guest for guest in lab.guests if guest.name == name]
    if not found:
        raise StateError(f"no guest {name} in lab {lab.name}: see lab/lab status --name {lab.name}")
    if len(found) > 1:
        raise StateError(
            f"{name} is on several hosts: write {' or '.join(f'{guest.host.name}/{name}' for guest in found)}"
        )
    return found[0]


def _agent(options: argparse.Namespace) -> int:
    programs.require_root()
    from lab.by_hand import become_agent  # it loads memhint, which the other commands do without

    become_agent(Lab.attach(options.name).host(options.host), options.set)


def _memhint(options: argparse.Namespace) -> int:
    from lab.by_hand import become_memhint

    become_memhint(Lab.attach(options.name).host(options.host), options.words)


def _exec(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise StateError("no command given: lab/lab exec HOST -- COMMAND")
    return _become(Lab.attach(options.name).host(options.host), command)


def _shell(options: argparse.Namespace) -> int:
    return _become(Lab.attach(options.name).host(options.host), [os.environ.get("SHELL") or "/bin/sh"])


def _become(host: Host, command: list[str]) -> int:
    programs.require_root()
    # The shell goes back to where the user is: entering a mount namespace leads to its root.
    argv = [*host.enter_argv(), "/bin/sh", "-c", 'cd "$0" && exec "$@"', os.getcwd(), *command]
    sys.stdout.flush()
    os.execv(argv[0], argv)


def _down(options: argparse.Namespace) -> int:
    programs.require_root()
    labs = paths.labs_dir()
    names = existing(labs) if options.all else [check_name(options.name)]
    for name in names:
        ended = teardown(labs / name)
        print(f"lab {name}: {'ended' if ended else 'there is none'}")
    if options.all:
        for line in sweep(labs):
            print(f"left behind: {line}: ended")
    return 0


def _in_debian(options: argparse.Namespace) -> int:
    if not options.command:
        raise StateError("no command given: lab/lab in-debian 13 make demo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # with what the machine left removed
    # Swap files may come to be in it, which temporary file systems cannot hold.
    whole = options.keep.absolute() if options.keep else scratch("debian", "/var/tmp")
    folder = whole if options.keep else whole / "machine"
    try:
        make_machine(folder, options.release, _CHECKOUT, lambda what: print(f"in-debian: {what}", file=sys.stderr))
        return run_in_machine(folder, options.command)
    finally:
        if options.keep is None:
            remove_machine(whole)


def _image(options: argparse.Namespace) -> int:
    with shown_progress() as progress:
        names = options.kernel or packages.KERNEL_SERIES
        built = [(series, guest_image(series, progress, options.agent)) for series in names]
    for series, ready in built:
        size = ready.kernel.stat().st_size + ready.initrd.stat().st_size
        print(f"{series}: {ready.release}, {format_size(size)} in {ready.kernel.parent}")
    return 0
