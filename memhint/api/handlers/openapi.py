"""The API's own description."""

from __future__ import annotations

from memhint.api.route import ApiResponse, Call


def show(call: Call) -> ApiResponse:
    """OpenAPI 3.1, made of the route table."""
    return ApiResponse(call.parts.description)
