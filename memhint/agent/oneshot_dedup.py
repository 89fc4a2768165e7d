"""An estimate of what merging would save, made while somebody waits for it."""

from __future__ import annotations

import math
import os
import time

from oslo_config import cfg

from memhint.agent.build import build
from memhint.agent.build_dedup import finder_at_once, ksm_pace
from memhint.agent.oneshot import POLL, look_first, stores_of
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.report import Report
from memhint.pages.samples import IDLE, PageSamples


def estimate_now(conf: cfg.ConfigOpts, settle: float) -> Report:
    """A report with an estimate of what merging would save, made here and now; nothing is pulled, nothing written.

    Takes 0.3 to 1 s of CPU per GiB that VMs have in memory, and ``settle`` seconds between two looks.

    :raises StoreError: when there is a store that cannot be used
    :raises KernelInterfaceError: when the host's memory cannot be read
    """
    finder = finder_at_once(conf, os.cpu_count() or 1, settle)
    root = KernelRoot()
    samples = PageSamples(root, PAGE_SIZE, 100.0, math.inf, settle, ksm_pace(conf, root), finder=finder)
    with stores_of(conf) as (stores, _):
        agent = build(conf, stores, "", dry_run=True, samples=samples)
        try:
            look_first(agent)
            while not samples.complete():
                if samples.step() >= IDLE:
                    time.sleep(POLL)  # the second look is not due yet
            return agent.cycle.run()
        finally:
            samples.close()
            agent.close()
