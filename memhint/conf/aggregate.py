"""[aggregate_name]: what holds for the VMs of this host because of an aggregate that it belongs to."""

from __future__ import annotations

from memhint.conf.policy import AGGREGATE_OPTS, aggregate_group

GROUP = aggregate_group("name")  # stands for every aggregate, in the sample and in the pages

OPTS = AGGREGATE_OPTS
