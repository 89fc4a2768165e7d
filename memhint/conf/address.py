"""An address and a port to listen on, as options have it."""

from __future__ import annotations

_PORT = r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5]?[0-9]{1,4})"

ADDRESS = r"(\[[0-9a-fA-F:]+\]|[^:,\s\[\]]+):" + _PORT
"""A pattern: a name, an IPv4 address or an IPv6 one in brackets, and a port up to 65535."""
