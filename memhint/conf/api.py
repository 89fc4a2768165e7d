"""[api]: the admin API and the dashboard."""

from __future__ import annotations

from oslo_config import cfg, types

GROUP = "api"

_PORT = r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5]?[0-9]{1,4})"
ADDRESS = r"(\[[0-9a-fA-F:]+\]|[^:,\s\[\]]+):" + _PORT  # a name or an address, IPv6 in brackets, and a port up to 65535

OPTS = (
    cfg.ListOpt(
        "listen",
        default=["127.0.0.1:8790"],
        item_type=types.String(regex=f"^{ADDRESS}$"),
        help="Addresses and ports that are listened on, by commas: 127.0.0.1:8790, [::1]:8790. Port 0 is any free one.",
    ),
    cfg.StrOpt(
        "auth",
        default="token",
        choices=[
            ("token", "by the tokens of token_file"),
            ("keystone", "by Keystone, as [keystone_authtoken] says"),
            ("none", "whoever is on this host is an admin; on loopback addresses only"),
        ],
        help="How callers show who they are.",
    ),
    cfg.StrOpt(
        "token_file",
        default="/etc/memhint/tokens",
        help="Path of the file with a line for each token, which memhint token create prints. It is read again when it "
        "changes.",
    ),
    cfg.StrOpt(
        "cert_file",
        default="",
        help="Path of the certificate, and of those that signed it (PEM). Empty: no TLS. "
        "One that is renewed in its place is read by itself.",
    ),
    cfg.StrOpt("key_file", default="", help="Path of the certificate's key, where it is in a file of its own."),
    cfg.IntOpt("threads", default=8, min=1, max=256, help="Requests that are answered at the same time."),
    cfg.IntOpt(
        "streams",
        default=32,
        min=0,
        max=1024,
        help="Clients that may follow the stream of changes at the same time, beside those requests; further ones are "
        "told to come back.",
    ),
    cfg.IntOpt("client_streams", default=4, min=1, max=1024, help="How many of those streams one client may have."),
    cfg.FloatOpt(
        "rate",
        default=50.0,
        min=0,
        help="Requests per second that one client may make, once burst is used up. 0: as many as it likes.",
    ),
    cfg.IntOpt("burst", default=200, min=1, help="Requests that one client may make at once."),
)
