"""Where the API is and who asks."""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from memhint.client.errors import SettingsError

LOG = logging.getLogger(__name__)

URL = "http://127.0.0.1:8790"
TIMEOUT = 30.0  # seconds
DEADLINE = 120.0  # seconds
MICROVERSION = "1.0"  # that this client was written for
_TOKEN_MOST = 4096  # characters; the server looks at no more


@dataclass(frozen=True, slots=True)
class Settings:
    """``ca_file`` None: what requests trusts.

    ``timeout`` is seconds of silence after which an answer counts as lost, ``deadline`` seconds after which it must be
    whole, further attempts with it.
    """

    url: str = URL
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    timeout: float = TIMEOUT
    deadline: float = DEADLINE
    microversion: str = MICROVERSION

    def check(self) -> Settings:
        """The settings themselves.

        :raises SettingsError: when nothing could be asked with them
        """
        try:
            parts = urlsplit(self.url)
            parts.port  # noqa: B018 - a port that is none raises here
        except ValueError:
            raise SettingsError(f"{self.url[:200]!r} is no URL: write http://HOST:PORT") from None
        if parts.username is not None or parts.password is not None:
            raise SettingsError("the URL of the API names a user: give a token instead")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise SettingsError(f"{self.url[:200]!r} is no URL of an API: write http://HOST:PORT")
        if parts.path.rstrip("/").endswith("/v1"):
            raise SettingsError(f"{self.url[:200]!r} names a part of the API: leave /v1 out")
        if self.token is not None:
            check_token(self.token, "the token")
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise SettingsError(f"there is no file {self.ca_file} with certificates")
        for name in ("timeout", "deadline"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"a {name} of {getattr(self, name):g} s: say more than 0")
        return self


def check_token(token: str, what: str) -> str:
    """The token itself.

    :raises SettingsError: when no header could carry it
    """
    if not 0 < len(token) <= _TOKEN_MOST or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(f"{what} is none: it is one word of at most {_TOKEN_MOST} printable characters")
    return token


def read_token(path: str | os.PathLike[str]) -> str:
    """The token that a file holds.

    :raises SettingsError: when it cannot be read or holds none
    """
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_TOKEN_MOST + 2).strip()
    except OSError as error:
        raise SettingsError(f"the token file {os.fspath(path)}: {error.strerror or error}") from None
    if stat.S_ISREG(mode) and mode & stat.S_IROTH:
        LOG.warning("everybody on this host can read the token in %s: chmod 600 it", os.fspath(path))
    return check_token(text, f"what is in {os.fspath(path)}")
