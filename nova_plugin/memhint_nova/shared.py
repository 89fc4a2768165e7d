"""What filter and weigher of one process have in common: Nova makes each by itself, without arguments."""

from __future__ import annotations

import threading
import time

from oslo_config import cfg

from memhint_nova import conf as memhint_conf
from memhint_nova import transport
from memhint_nova.claims import Said
from memhint_nova.client import HostsClient
from memhint_nova.counts import Counts
from memhint_nova.judge import Judge, Rules
from memhint_nova.refresher import Refresher


class Shared:
    """One process's snapshot and counts, and the rules of its nova.conf."""

    def __init__(self, conf: cfg.ConfigOpts, refresher: Refresher, counts: Counts) -> None:
        self.refresher = refresher
        self.counts = counts
        self._conf = conf

    def judge(self) -> Judge:
        """For one request."""
        options = self._conf.memhint
        rules = Rules(
            overhead=options.overhead_mib,
            reserved=self._conf.reserved_host_memory_mb,
            psi_limit=options.psi_limit or None,
            pass_unknown=options.unknown_hosts == "pass",
            said=Said(options.providers),
        )
        return Judge(self.refresher.view(), rules, time.monotonic())

    def class_ratios(self) -> dict[str, float]:
        """The most for each class, 0 for no limit."""
        options = self._conf.memhint
        return {
            "guaranteed": options.guaranteed_max_ratio,
            "burstable": options.burstable_max_ratio,
            "best-effort": options.best_effort_max_ratio,
        }


_lock = threading.Lock()
_shared: Shared | None = None


def shared(conf: cfg.ConfigOpts) -> Shared:
    """The process's own, made at the first call. Nothing is asked of anybody yet."""
    global _shared
    with _lock:
        if _shared is None:
            memhint_conf.register(conf)
            options, counts = conf.memhint, Counts()
            refresher = Refresher(
                lambda: HostsClient(transport.from_conf(conf), 10 * options.request_timeout),
                counts,
                options.interval,
                options.first_wait,
                options.totals_interval,
            )
            _shared = Shared(conf, refresher, counts)
        return _shared


def forget() -> None:
    """Begin again, for tests."""
    global _shared
    with _lock:
        if _shared is not None:
            _shared.refresher.stop()
        _shared = None
