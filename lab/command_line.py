"""What the command lines of the lab and of its OpenStack share.

Exit codes: 0 done, 1 the lab could not do it (the message says why and what to do), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from lab import disk_trouble
from lab.errors import BadSize, LabError
from lab.sizes import parse_size


def parser_of(program: str, description: str, examples: str) -> argparse.ArgumentParser:
    """A parser that shows examples below its help."""
    return argparse.ArgumentParser(
        prog=program,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], help_text: str
) -> argparse.ArgumentParser:
    """The parser of one command."""
    text = help_text[0].upper() + help_text[1:] + "."
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=text)
    parser.set_defaults(run=run)
    return parser


def run_command(parser: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Run the command that is asked for, and return its exit code."""
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"lab: {disk_trouble.said(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130


def byte_size(text: str) -> int:
    """Bytes, of a word such as 512MiB; for argparse."""
    try:
        return parse_size(text)
    except BadSize as error:
        raise argparse.ArgumentTypeError(str(error)) from None
