"""[DEFAULT]: which host this is and how often it looks."""

from __future__ import annotations

import socket

from oslo_config import cfg

OPTS = (
    # not "host": that is the name of a group, and oslo.config would answer with the group
    cfg.StrOpt(
        "host_name",
        default=socket.gethostname(),
        sample_default="<hostname>",
        regex=r"^[A-Za-z0-9._:-]{1,255}$",
        help="The name under which this host publishes and stores its reports.",
    ),
    cfg.FloatOpt(
        "period",
        default=10.0,
        min=0.2,
        max=3600,
        help="Seconds from one observation of the host and its VMs to the next. "
        "A report older than three periods counts for nothing.",
    ),
)
