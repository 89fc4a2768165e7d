"""Wishes as words of a command line: what setting a VM's policy on this host and in the fleet have in common."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from textwrap import fill

from memhint.cli.exits import CliError, Exit
from memhint.objects.policy import KEYS

INHERIT = "inherit"
_TEXT = " " * 6  # before the explanation of a key


def keys_help() -> str:
    """What each key may be, for a command's help."""
    explained = (
        f"  {key.name}={key.kind.form}|{INHERIT}\n" + fill(key.help, 100, initial_indent=_TEXT, subsequent_indent=_TEXT)
        for key in KEYS.values()
    )
    return "\n".join(["keys:", *explained]).replace("%", "%%")  # argparse fills in what follows a %


def add_wishes(parser: argparse.ArgumentParser, inherit: str) -> None:
    """The words.

    :param inherit: what KEY=inherit does
    """
    parser.add_argument("wishes", metavar="KEY=VALUE", nargs="+", help=f"what shall hold; KEY=inherit {inherit}")


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Whether it is only tried."""
    parser.add_argument("--dry-run", action="store_true", help="show what would hold and store nothing")


def wishes_of(words: Iterable[str]) -> dict[str, str | None]:
    """Key and value of each word, None where the wish is taken back. Whether there are such is not checked.

    :raises CliError: on a word that is no KEY=VALUE, or a key that is named twice
    """
    found: dict[str, str | None] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise CliError(Exit.USAGE, f"{word!r}: write KEY=VALUE, for example reporting=off")
        if name in found:
            raise CliError(Exit.USAGE, f"{name} is set twice: say it once")
        found[name] = None if value == INHERIT else value
    return found
