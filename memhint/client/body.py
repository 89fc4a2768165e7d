"""What is taken of an answer: no more bytes, no more time and no other JSON than the API's answers are made of."""

from __future__ import annotations

import json
import time
from typing import Any

import requests

from memhint.client.errors import BadAnswer, Unreachable
from memhint.objects.strict_json import finite, no_constant

LARGEST = 64 << 20  # bytes of one answer, unpacked; a thousand VMs are a sixtieth of it
SECONDS = 300.0  # until the last byte of it; how long the first may take is the settings' ``timeout``
_PIECE = 256  # bytes; the time is looked at between two of them, each of which may take as many timeouts at worst


def read_json(response: requests.Response) -> Any:
    """The answer's document; None where it is no JSON.

    :raises BadAnswer: when it is larger than any answer of the API
    :raises Unreachable: when it does not come to an end
    :raises requests.RequestException: when the connection breaks
    """
    return parsed(_read(response))


def parsed(text: bytes | str) -> Any:
    """What a JSON text says; None where it is none. NaN, Infinity and numbers as large are none of JSON's."""
    try:
        return json.loads(text, parse_constant=no_constant, parse_float=finite)
    except (ValueError, RecursionError):
        return None


def _read(response: requests.Response) -> bytes:
    end = time.monotonic() + SECONDS
    found = bytearray()
    for piece in response.iter_content(_PIECE):
        found += piece
        if len(found) > LARGEST:
            raise BadAnswer(
                f"{response.url[:200]} answers with more than {LARGEST >> 20} MiB: is that the API of memhint?"
            )
        if time.monotonic() > end:
            raise Unreachable(f"the answer has not ended after {SECONDS:.0f} s")
    return bytes(found)
