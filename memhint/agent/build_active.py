"""The reader of active memory, from the configuration."""

from __future__ import annotations

import time

from oslo_config import cfg

from memhint.agent.active_reads import APART, ActiveReads, Watch, chosen
from memhint.kernel.clearings import Clearings
from memhint.kernel.damon import Damon
from memhint.kernel.root import KernelRoot
from memhint.objects.active import ActiveSource
from memhint.objects.ownership import Ledger


def build_active(
    conf: cfg.ConfigOpts, root: KernelRoot, ledger: Ledger, boot: str, clearings: Clearings, *, dry_run: bool
) -> ActiveReads:
    """A reader that is not begun yet. A dry run watches nothing: watching changes the host."""
    damon = Damon(root, ledger, boot, time.time)

    # what it needs is loaded only where it is wanted
    def by_damon(pid: int) -> Watch:
        from memhint.kernel.damon_watch import DamonWatch

        return DamonWatch(root, damon, pid, conf.active.interval, regions=conf.active.regions)

    def by_referenced(pid: int) -> Watch:
        from memhint.kernel.referenced import ReferencedWatch

        return ReferencedWatch(root, pid, conf.active.round, clearings=clearings)

    offered = {ActiveSource.DAMON: by_damon, ActiveSource.REFERENCED: by_referenced}
    sources = {} if dry_run else chosen(conf.active.source, offered)
    release = _nothing if dry_run else damon.release
    return ActiveReads(sources, conf.active.cpu_percent, release=release, apart=APART)


def _nothing() -> None:
    """What a dry run gives back."""
