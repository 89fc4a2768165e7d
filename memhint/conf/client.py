"""[client]: where `memhint` finds the API of a fleet."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "client"

OPTS = (
    cfg.StrOpt(
        "url",
        default="http://127.0.0.1:8790",
        help="URL of the API that memhint hosts, vms and all other commands on the fleet ask. --api and MEMHINT_API go "
        "before it.",
    ),
    cfg.StrOpt(
        "token_file",
        default="",
        help="Path of the file with the token that is shown to it. --token-file, MEMHINT_TOKEN and MEMHINT_TOKEN_FILE "
        "go before it. Empty: none.",
    ),
    cfg.StrOpt(
        "ca_file",
        default="",
        help="Path of the certificates that may have signed the API's (PEM). Empty: those that requests trusts.",
    ),
    cfg.FloatOpt(
        "timeout",
        default=30.0,
        min=1,
        help="Seconds in which the API must begin to answer, and in which each further piece of an answer must come.",
    ),
    cfg.FloatOpt(
        "deadline",
        default=120.0,
        min=1,
        help="Seconds in which the API's whole answer must have come, second and third attempts with it, however it "
        "trickles. A stream of changes must have begun by then.",
    ),
)
