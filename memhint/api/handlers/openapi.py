"""The API's own description."""

from __future__ import annotations

from memhint.api.route import Answer, Call


def show(call: Call) -> Answer:
    """OpenAPI 3.1, made of the route table."""
    return Answer(call.parts.description)
