"""[memhint] of nova.conf, in the scheduler and on computes."""

from __future__ import annotations

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = "memhint"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "token_file",
        help="File whose first line is the token for memhint's admin API, read again each time. Needs "
        "endpoint_override. Without it and without auth_type no token is sent.",
    ),
    cfg.FloatOpt(
        "interval",
        default=5.0,
        min=0.5,
        max=300.0,
        help="Seconds between two looks at memhint's admin API, at most: where half of the hosts report more often, as "
        "[DEFAULT] period of their agents says, looks are as far apart as these reports, but never less than 0.5 s.",
    ),
    cfg.FloatOpt(
        "request_timeout",
        default=5.0,
        min=0.1,
        max=60.0,
        help="Seconds to connect, and between two pieces of an answer, of Keystone's too. All pages of one look have "
        "ten times as long.",
    ),
    cfg.IntOpt("max_body_mib", default=8, min=1, max=256, help="MiB of one answer; a larger one is dropped."),
    cfg.FloatOpt(
        "first_wait",
        default=2.0,
        min=0.0,
        max=30.0,
        help="Seconds that the first request of a scheduler process may wait for the first answer. Later ones never "
        "wait.",
    ),
    cfg.FloatOpt(
        "psi_limit",
        default=10.0,
        min=0.0,
        max=100.0,
        help="Percent of memory pressure (PSI some, over 10 s) from which a host gets no VM, beside what its own agent "
        "says. 0: only what the agent says.",
    ),
    cfg.IntOpt(
        "overhead_mib",
        default=128,
        min=0,
        max=65536,
        help="MiB that QEMU itself takes for one VM: [planner] overhead_mib of the agents.",
    ),
    cfg.StrOpt(
        "unknown_hosts",
        default="nominal",
        choices=[
            ("nominal", "place on them by nominal accounting"),
            ("pass", "leave them to the other filters, as in a cloud where only some computes have an agent"),
        ],
        help="What holds for a compute that memhint has never told of, while it tells of others.",
    ),
    cfg.DictOpt(
        "providers",
        default={},
        help="UUIDs of the computes of hosts whose name in memhint is neither host nor hypervisor_hostname of the "
        "compute: HOST:UUID,HOST:UUID, as [openstack] providers of the controllers. Another host's word for a compute "
        "counts for nothing unless it stands here.",
    ),
    *(
        cfg.FloatOpt(
            f"{name}_max_ratio",
            default=0.0,
            min=0.0,
            max=16.0,
            help=f"VMs of class {name.replace('_', '-')} are placed only where what Nova counts as used, the VM "
            "included, stays within so many times the host's memory. 0 is no limit.",
        )
        for name in ("guaranteed", "burstable", "best_effort")
    ),
    cfg.FloatOpt(
        "weight_multiplier",
        default=4.0,
        help="Of MemhintWeigher: above 0 packs, below 0 spreads, 0 leaves measured headroom out. 4 is more than Nova's "
        "own weighers for CPU, RAM and disk together, which spread. The aggregate's metadata "
        "memhint_weight_multiplier overrules it.",
    ),
    cfg.StrOpt(
        "small_pages_emulator",
        help="On computes: the program, such as /usr/bin/memhint-small-pages, that starts VMs whose flavor says "
        "memhint:huge_pages=deny. Every compute that such a VM may move to needs it. Where it is not set, they are "
        "started as all others are.",
    ),
    cfg.FloatOpt(
        "totals_interval",
        default=600.0,
        min=1.0,
        help="Seconds between two lines of the log that count what was refused, and why.",
    ),
]

# The plugin's requests have limits of their own.
_SESSION = [
    opt for opt in loading.get_session_conf_options() if opt.dest not in ("timeout", "collect_timing", "split_loggers")
]
_ADAPTER = [
    opt
    for opt in loading.get_adapter_conf_options(include_deprecated=False)
    if opt.dest in ("endpoint_override", "service_type", "service_name", "region_name", "valid_interfaces")
]
cfg.set_defaults(_ADAPTER, service_type="memhint", valid_interfaces=["internal", "public"])


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known; a second time changes nothing."""
    # A group object keeps the options of whatever it is registered with: each configuration needs its own.
    conf.register_group(_group())
    conf.register_opts([*OPTS, *_SESSION, *_ADAPTER], group=GROUP)
    loading.register_auth_conf_options(conf, GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(_group(), [*OPTS, *_SESSION, *_ADAPTER, *loading.get_auth_common_conf_options()])]


def _group() -> cfg.OptGroup:
    return cfg.OptGroup(GROUP, title="memhint: packing on measured memory")
