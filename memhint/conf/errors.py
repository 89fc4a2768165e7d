"""The one error of a wrong configuration."""

from __future__ import annotations


class ConfigError(Exception):
    """A configuration that cannot be used: where, which option, and what would be accepted.

    ``file`` is None where the value comes from no file, ``option`` where the file as a whole is wrong.
    """

    def __init__(self, file: str | None, option: str | None, accepted: str) -> None:
        self.file = file
        self.option = option
        self.accepted = accepted
        super().__init__(": ".join(part for part in (file, option, accepted) if part))
