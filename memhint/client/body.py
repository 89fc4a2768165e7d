"""What is taken of an answer: no more bytes, no more time and no other JSON than the API's answers are made of."""

from __future__ import annotations

import json
import time
from typing import Any

import requests

from memhint.client.errors import BadAnswer, TooSlow
from memhint.objects.strict_json import finite, no_constant

LARGEST = 64 << 20  # bytes of one answer, unpacked; a thousand VMs are a sixtieth of it
_PIECE = 256  # bytes; the time is looked at between two of them


def read_json(response: requests.Response, end: float) -> Any:
    """The answer's document; None where it is no JSON.

    :param end: when it must be whole, on the monotonic clock

    :raises BadAnswer: when it is larger than any answer of the API
    :raises TooSlow: when it is not
    :raises requests.RequestException: when the connection breaks
    """
    return parsed(_read(response, end))


def parsed(text: bytes | str) -> Any:
    """What a JSON text says; None where it is none. NaN, Infinity and numbers as large are none of JSON's."""
    try:
        return json.loads(text, parse_constant=no_constant, parse_float=finite)
    except (ValueError, RecursionError):
        return None


def _read(response: requests.Response, end: float) -> bytes:
    found = bytearray()
    for piece in response.iter_content(_PIECE):
        found += piece
        if len(found) > LARGEST:
            raise BadAnswer(
                f"{response.url[:200]} answers with more than {LARGEST >> 20} MiB: is that the API of memhint?"
            )
        if time.monotonic() > end:
            raise TooSlow("the answer is not whole in time")
    return bytes(found)
