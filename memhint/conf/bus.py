"""[bus]: the broker between agents and controllers."""

from __future__ import annotations

from oslo_config import cfg, types

from memhint.conf.amounts import MOST_MIB

GROUP = "bus"

OPTS = (
    cfg.ListOpt(
        "urls",
        default=[],
        secret=True,
        item_type=types.String(regex=r"^amqps?://[^,\s]+$"),
        help="URLs of the RabbitMQ nodes, by commas: amqps://USER:PASSWORD@HOST:5671/VHOST. An agent's user is named "
        "as its host_name. Empty: reports stay on this host.",
    ),
    cfg.StrOpt(
        "ca_file",
        default="",
        help="Path of the certificates that may have signed the broker's (PEM). Empty: those that the system trusts.",
    ),
    cfg.StrOpt("cert_file", default="", help="Path of this process's own certificate, where the broker asks for one."),
    cfg.StrOpt("key_file", default="", help="Path of that certificate's key, where it is in a file of its own."),
    cfg.FloatOpt("timeout", default=10.0, min=1, help="Seconds in which a node of the broker must answer."),
    cfg.IntOpt(
        "heartbeat", default=30, min=5, max=600, help="Seconds of silence of the broker after which it counts as away."
    ),
    cfg.FloatOpt(
        "backoff_max",
        default=60.0,
        min=0.5,
        help="Seconds, at most, between two attempts to reach the broker; they double up to it.",
    ),
    cfg.FloatOpt(
        "flush",
        default=60.0,
        min=0,
        help="Seconds for which an agent gathers points of the history for one message. Events are sent at once.",
    ),
    cfg.StrOpt(
        "spool",
        default="/var/lib/memhint/spool.db",
        help="Path of the file in which an agent keeps history and events while the broker is away.",
    ),
    cfg.IntOpt(
        "spool_most",
        default=100_000,
        min=1,
        help="Points and events that may wait there. The oldest go where there are more, and are counted.",
    ),
    cfg.IntOpt("spool_mib", default=64, min=1, max=MOST_MIB, help="MiB of points and events that may wait there."),
)
