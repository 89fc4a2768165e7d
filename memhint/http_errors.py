"""What an answer over HTTP says of what went wrong: memhint's own API, Keystone and OpenStack's services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DETAIL_MOST = 500  # characters

UNFORESEEN = (LookupError, TypeError, ValueError, AttributeError)
"""What keystoneauth and keystonemiddleware let through where a token, or the address of a redirect, is none."""


def first_error(body: object) -> Mapping[str, Any]:
    """The error that an answer's document tells of first, by the names of OpenStack's API guideline; empty: none."""
    if not isinstance(body, dict):
        return {}
    errors, other = body.get("errors"), body.get("error")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return errors[0]
    return {"detail": other.get("message")} if isinstance(other, dict) else {}


def one_line(value: object) -> str:
    """A server's text in one line, without what a terminal would obey."""
    text = " ".join(str(value).split()) if value is not None else ""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)[:DETAIL_MOST]
