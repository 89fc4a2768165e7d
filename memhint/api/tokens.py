"""Static tokens: a file of hashes. To read it reveals no token; who may write it can add some."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from memhint.api.file_mark import file_mark

LOG = logging.getLogger(__name__)

ROLES = ("admin", "service", "reader")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")
_PROJECT = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_LARGEST = 1 << 20  # bytes of a token file


class TokenFileError(Exception):
    """The file of tokens cannot be used; the text says what is wrong and never what is in it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Somebody who has a token. ``digest`` is the SHA-256 of it, in hex."""

    name: str
    roles: tuple[str, ...]
    digest: str
    project: str | None = None

    def line(self) -> str:
        """As it stands in the file."""
        words = [self.name, ",".join(self.roles), self.digest, *([self.project] if self.project else [])]
        return " ".join(words)

    @property
    def boundless(self) -> bool:
        """Whether it has a project and sees all others nevertheless: only a reader is held to one."""
        return self.project is not None and set(self.roles) != {"reader"}


def create(name: str, roles: Iterable[str], project: str | None = None) -> tuple[str, Entry]:
    """A new random token and its entry.

    :raises TokenFileError: on a name, role or project that an entry cannot have, and on a project that bounds nothing
    """
    token = secrets.token_urlsafe(32)
    words = [name, ",".join(roles), digest(token), *([project] if project else [])]
    entry = _entry(words)
    if entry.boundless:
        raise TokenFileError("only a reader is held to a project: a token of another role sees every project")
    return token, entry


def digest(token: str) -> str:
    """What is kept of a token. It is random and long, so no salt and no slow hash would add to it."""
    return hashlib.sha256(token.encode()).hexdigest()


def parse(text: str) -> tuple[Entry, ...]:
    """The entries of a file.

    :raises TokenFileError: naming the first line that is none
    """
    entries: list[Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            entry = _entry(words)
        except TokenFileError as error:
            raise TokenFileError(f"line {number}: {error}") from None
        if any(entry.digest == other.digest for other in entries):
            raise TokenFileError(f"line {number}: the same token twice")
        entries.append(entry)
    return tuple(entries)


def _entry(words: list[str]) -> Entry:
    if not 3 <= len(words) <= 4:
        raise TokenFileError("write NAME ROLE[,ROLE] SHA256 [PROJECT]; memhint token create makes such a line")
    name, roles, hashed, *project = words
    if not _NAME.fullmatch(name):
        raise TokenFileError("a name is up to 64 letters, digits and . _ @ -")
    said = tuple(roles.split(","))
    if not set(said) <= set(ROLES) or len(set(said)) != len(said):
        raise TokenFileError(f"roles are {', '.join(ROLES)}, each once, by commas")
    if not _HASH.fullmatch(hashed):
        raise TokenFileError("the third word is the SHA-256 of the token, 64 digits in lower case")
    if project and not _PROJECT.fullmatch(project[0]):
        raise TokenFileError("a project is up to 64 letters, digits and . _ : -")
    return Entry(name, said, hashed, project[0] if project else None)


class Tokens:
    """Those of a file, read again when it changes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """:raises TokenFileError: when the file cannot be used."""
        self._path = Path(path)
        try:
            self._mark: tuple[int, ...] | None = file_mark(path)
            self._entries = self._read()
        except OSError as error:
            raise TokenFileError(
                f"{path}: {error.strerror}; make it with the line that memhint token create NAME --role admin prints"
            ) from error

    def find(self, token: str) -> Entry | None:
        """Whose token it is; None where it is unknown. It takes as long either way."""
        self._refresh()
        hashed, found = digest(token), None
        for entry in self._entries:
            if hmac.compare_digest(entry.digest, hashed):
                found = entry
        return found

    def _refresh(self) -> None:
        try:
            mark = file_mark(self._path)
            if mark == self._mark:
                return
            self._mark = mark  # at once: a file that is wrong is told of once
            self._entries = self._read()
            LOG.info("%s: read again, %d tokens", self._path, len(self._entries))
        except OSError as error:
            if self._mark is not None or self._entries:
                LOG.error("%s: %s; no token is accepted until it is there again", self._path, error.strerror)
            self._entries, self._mark = (), None
        except TokenFileError as error:
            # Half a file must neither lock everybody out nor let somebody in.
            LOG.error("%s; the tokens of before hold on", error)

    def _read(self) -> tuple[Entry, ...]:
        with self._path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_LARGEST + 1)
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise TokenFileError(f"{self._path}: others may write it; chmod go-w {self._path}")
        if len(data) > _LARGEST:
            raise TokenFileError(f"{self._path} is larger than {_LARGEST} bytes")
        try:
            entries = parse(data.decode())
        except UnicodeDecodeError:
            raise TokenFileError(f"{self._path} is not UTF-8 text") from None
        except TokenFileError as error:
            raise TokenFileError(f"{self._path}, {error}") from None
        for one in entries:
            if one.boundless:
                LOG.warning(
                    "%s: the token of %s has a project and sees every project: only a reader is held to one",
                    self._path,
                    one.name,
                )
        return entries
