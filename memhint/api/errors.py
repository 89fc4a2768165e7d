"""What an answer says when it is no success: typed problems, in the form of the OpenStack API guidelines."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Any


class Problem(Exception):
    """The end of a request. ``code`` is a word that programs may rely on, ``detail`` says what to do next.

    ``extra`` are further members of the error, ``headers`` those of the answer.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = f"memhint.{code}"
        self.detail = detail
        self.extra = dict(extra or {})
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> dict[str, Any]:
        """The document that tells of it."""
        error = {
            "status": self.status,
            "code": self.code,
            "title": HTTPStatus(self.status).phrase,
            "detail": self.detail,
            "request_id": request_id,
        }
        return {"errors": [{**error, **self.extra}]}


def bad_request(code: str, detail: str) -> Problem:
    """400: the request itself is wrong."""
    return Problem(400, code, detail)


def not_found(what: str, detail: str) -> Problem:
    """404. What the caller may not see is not there either."""
    return Problem(404, f"{what}.not_found", detail)


def too_many(detail: str, wait: float = 1.0) -> Problem:
    """429. ``wait``: seconds after which to come back."""
    return Problem(429, "too_many_requests", detail, headers={"Retry-After": str(max(1, ceil(wait)))})
