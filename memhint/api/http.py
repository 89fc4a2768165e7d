"""Answers over HTTP: JSON, entity tags, and the headers that limit what a browser does with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import xxhash
from werkzeug import Request, Response

from memhint.api.errors import bad_request
from memhint.api.route import JSON, ApiResponse

_TAG = r'(?:W/)?"[\x21\x23-\x7e]*"'
_TAGS = re.compile(rf"\*|{_TAG}(?:[ \t]*,[ \t]*{_TAG})*")
_PACKED = ("", "-gzip", "-br", "-zstd", ";gzip")
"""What a proxy that compresses adds to a tag within its quotes; others make it a weak one."""

# The dashboard needs nothing from elsewhere, and no page may frame it.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY: Mapping[str, str] = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def dump(document: Any) -> bytes:
    """JSON as it goes out."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def etag_of(body: bytes) -> str:
    """The entity tag of a body, without its quotes."""
    return xxhash.xxh3_128_hexdigest(body)


def matches(request: Request, tag: str) -> bool:
    """Whether a change may go on: If-Match names this state of what is changed, or is not there at all.

    :raises Problem: 400 where it cannot be read: without its condition, the change is not wanted
    """
    said = request.headers.get("If-Match")
    if said is None:
        return True
    if _TAGS.fullmatch(said.strip()) is None:
        raise bad_request("if_match.invalid", 'If-Match is the ETag of what you saw, with its quotes: "…", or *')
    # Our tag names what is set, not bytes: who saw it packed by a proxy saw the same.
    return any(request.if_match.contains_weak(f"{tag}{packed}") for packed in _PACKED)


def response_of(request: Request, answer: ApiResponse | Response) -> Response:
    """An answer as a response; with its entity tag, and 304 where the client has it already."""
    if isinstance(answer, Response):
        return answer
    media = answer.media
    if media == JSON and answer.status != 204:
        body: Any = dump(answer.body)
    else:
        body = answer.body
    response = Response(body, status=answer.status, headers=dict(answer.headers), content_type=media)
    if request.method == "HEAD" and hasattr(body, "close"):
        body.close()  # nothing of it will be sent
    if isinstance(body, bytes):
        response.headers.setdefault("Cache-Control", "private, no-cache")
        if request.method in ("GET", "HEAD") and answer.status == 200:
            response.set_etag(etag_of(body))
            response.make_conditional(request)
    return response
