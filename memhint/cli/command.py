"""What every subcommand does alike, wherever its figures come from: its help, its formats, and how it fails."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TextIO

from cliff.command import Command
from cliff.display import DisplayCommandBase

from memhint.cli.exits import CliError, Exit, is_full
from memhint.cli.table import TABLE, Table, clean, unknown


class Documented(Command):
    """A subcommand with examples, whose errors are one line on stderr and an exit code."""

    app: Any
    examples = ""
    failure: Exception | None = None
    """What the command ends with although it has shown its output; None where all went well."""

    def get_epilog(self) -> str:
        """The examples of this command; cliff would search every installed package for its origin first."""
        return self.examples

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """A parser whose examples keep their lines."""
        parser = super().get_parser(prog_name)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        self.add_formats(parser)
        self.add_arguments(parser)
        return parser

    def add_formats(self, parser: argparse.ArgumentParser) -> None:
        """Add how the output is to look; here there is none."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; an error becomes one line on stderr and its exit code."""
        try:
            code = super().run(parsed_args) or Exit.DONE
            self.app.stdout.flush()  # here it can still fail with a word
            if self.failure is not None:
                raise self.failure
            return code
        except BrokenPipeError:
            _discard(self.app.stdout)
            raise
        except Exception as error:
            if is_full(error):
                _discard(self.app.stdout)
            if self.app.options.debug:
                self.app.LOG.exception(error)
            else:
                self.say(self.line_of(error))
            return self.exit_of(error)

    def say(self, text: str) -> None:
        """A line on stderr. A host, a guest or the server may have had a hand in it."""
        self.app.stderr.write(f"{clean(text)}\n")

    def line_of(self, error: Exception) -> str:
        """One line for a person."""
        raise NotImplementedError

    def exit_of(self, error: Exception) -> Exit:
        """The exit code of an error."""
        raise NotImplementedError


class Displayed(Documented, DisplayCommandBase):  # type: ignore[type-arg]
    """A subcommand with output: a table in MiB for people, bytes under machine names in every other format."""

    def add_formats(self, parser: argparse.ArgumentParser) -> None:
        """Add the shorthand."""
        parser.add_argument(
            "--json",
            dest="formatter",
            action="store_const",
            const="json",
            default=argparse.SUPPRESS,
            help="the same as -f json: complete, in bytes",
        )

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """The output as cliff makes it, but that in CSV an unknown value is an empty field: there `None` is a text.

        :raises CliError: on a column that there is not
        """
        if not column_names:  # what has no rows may have no names either
            parsed_args.columns = []
        self.check_columns(parsed_args, column_names)
        if parsed_args.formatter == "csv":
            data = [[None if unknown(cell) else cell for cell in row] for row in data]
        code: int = super().produce_output(parsed_args, column_names, data)  # type: ignore[safe-super]
        return code

    def check_columns(self, parsed_args: argparse.Namespace, column_names: Iterable[str]) -> None:
        """Whether all columns that are asked for exist: of several cliff passes one over, and a script misses it.

        :raises CliError: on a column that there is not
        """
        known = {_word(name) for name in column_names}
        for name in parsed_args.columns:
            if _word(name) not in known:
                raise CliError(Exit.USAGE, f"{name!r} is no column here: use {', '.join(map(str, column_names))}")

    def table(self, parsed_args: argparse.Namespace) -> Table | None:
        """Where a table is wanted, the one that aligns sizes."""
        return Table() if parsed_args.formatter == TABLE else None


def _word(column: str) -> str:
    """A column's name as cliff compares it."""
    return str(column).lower().strip().replace(" ", "_")


def _discard(stream: TextIO) -> None:
    """Drop what could not be written, or Python tries it again at its end and complains in words of its own."""
    with suppress(OSError, ValueError):  # no file of the system
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
