"""The application: what is common to all subcommands, and their order of events."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from difflib import SequenceMatcher
from importlib.metadata import entry_points
from typing import Any

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager

from memhint.cli.exits import Exit
from memhint.cli.table import clean
from memhint.version import version

EXIT_CODES = """\
exit codes:
  0  done
  1  failed
  2  wrong usage or configuration
  3  there is no such domain, host or request
  4  there is no fresh report: the agent is not running
  5  a rule refused it, it is not supported, or another manager owns it
  6  the API cannot be reached, or fails
  7  the API does not know who asks, or does not let them
"""


_ALIKE = 0.6  # of 1; what is less is another word


class _Cleaned(logging.Formatter):
    """What a host, a guest or a server has had a hand in steers no terminal, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record, cleaned."""
        return clean(super().format(record))


class Commands(CommandManager):
    """The subcommands. Only the one that is run is imported: an agent carries no client of the API with it.

    One named in full is never taken for the beginning of another: `memhint reclaim sh` has the VM sh give back memory,
    it is no `memhint reclaim show`.
    """

    def load_commands(self, namespace: str) -> None:
        """Name the commands of an entry point group."""
        self.group_list.append(namespace)
        self.commands.update({one.name.replace("_", " "): one for one in entry_points(group=namespace)})

    def find_command(self, argv: list[str]) -> tuple[type[Command], str, list[str]]:
        """The command that argv begins with, its name, and the rest.

        :raises ValueError: when it begins with none
        """
        for length in range(len(argv), 0, -1):
            name = " ".join(argv[:length])
            if name in self.commands:
                return self.commands[name].load(), name, argv[length:]
        found: tuple[type[Command], str, list[str]] = super().find_command(argv)
        return found


class MemhintApp(App):
    """`memhint`, with the clocks and the patience that its commands use."""

    NAME = "memhint"
    LOG = logging.getLogger("memhint.cli")
    DEFAULT_VERBOSE_LEVEL = 0

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        # deferred: otherwise "memhint set --help" is answered with the help of memhint as a whole
        super().__init__(
            "Run more VMs on the memory you own, safely.",
            version() or "(not installed)",
            Commands("memhint.cli"),
            deferred_help=True,
        )
        self.clock = clock
        self.monotonic = monotonic
        self.sleep = sleep
        self._handlers: list[logging.Handler] = []

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: dict[str, Any] | None = None
    ) -> argparse.ArgumentParser:
        """Add the options of every subcommand."""
        kwargs = {
            "prog": self.NAME,
            "epilog": EXIT_CODES,
            "formatter_class": argparse.RawDescriptionHelpFormatter,
            **(argparse_kwargs or {}),
        }
        parser = super().build_option_parser(description, version, kwargs)
        for action in parser._actions:
            if action.dest == "version":  # cliff names the running script, whatever that is
                action.version = f"{self.NAME} {version}"  # type: ignore[attr-defined]
        parser.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            default=None,
            help="Configuration file; may be given more than once. Default: /etc/memhint/memhint.conf.",
        )

        parser.add_argument(
            "--api",
            metavar="URL",
            default=None,
            help="The API that commands on the fleet ask. Default: MEMHINT_API, [client] url, or http://127.0.0.1:8790.",
        )
        parser.add_argument(
            "--token-file",
            metavar="FILE",
            default=None,
            help="Whose token is shown to it. Default: MEMHINT_TOKEN (the token), MEMHINT_TOKEN_FILE, or [client] "
            "token_file.",
        )
        return parser

    def configure_logging(self) -> None:
        """Warnings to stderr, as cliff does it, but leaving nothing behind and no more than asked for."""
        root = logging.getLogger()
        before = list(root.handlers)
        try:
            super().configure_logging()
        except OSError as error:
            self.parser.error(f"argument --log-file: {self.options.log_file}: {error.strerror}")
        self._handlers = [handler for handler in root.handlers if handler not in before]
        for handler in self._handlers:
            if not isinstance(handler, logging.FileHandler):
                handler.setFormatter(_Cleaned(self.CONSOLE_MESSAGE_FORMAT))
        root.setLevel(min(handler.level for handler in self._handlers))

    def release_logging(self) -> None:
        """Take the handlers away again."""
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)

    def interact(self) -> None:
        """Without a command there is help: memhint has no shell of its own."""
        self.parser.print_help(self.stderr)

    def run(self, argv: list[str]) -> int:
        """Run one command line; the exit code."""
        code = super().run(argv)
        return Exit.USAGE if self.interactive_mode else code

    def run_subcommand(self, argv: list[str]) -> int:
        """Run the command that argv begins with; the exit code."""
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            if argv[0].startswith("-"):
                self.stderr.write(f"{argv[0]} is no option before the command: write memhint COMMAND {argv[0]} …\n")
                return Exit.USAGE
            return self._no_command(argv[0])
        asked = argv[1:2] if argv[0] == "help" else []
        if asked and not any(name.startswith(asked[0]) for name, _ in self.command_manager):
            return self._no_command(asked[0])
        return super().run_subcommand(argv)

    def _no_command(self, word: str) -> int:
        alike = [name for name in self.get_fuzzy_matches(word) if _alike(word, name)]
        hint = f"use {' or '.join(alike)}" if alike else "see memhint --help"
        self.stderr.write(f"{clean(repr(word))} is not a command of memhint: {hint}\n")
        return Exit.USAGE


def _alike(word: str, command: str) -> bool:
    """Whether a word may be meant to be this command: cliff names the nearest, however far it is."""
    first = command.split()[0]
    return command.startswith(word) or SequenceMatcher(None, word, first).ratio() >= _ALIKE
