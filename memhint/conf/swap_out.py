"""[swap_out]: sending cold memory of VMs to disk swap, where their policy allows it."""

from __future__ import annotations

from oslo_config import cfg

from memhint.conf.amounts import MOST_MIB
from memhint.conf.errors import ConfigError
from memhint.objects.ladder import Rung

GROUP = "swap_out"

OPTS = (
    cfg.BoolOpt(
        "allow_unencrypted",
        default=False,
        help="Whether guests' memory may be written to disk swap that is not on dm-crypt. It can then be read from the "
        "disk, also after it was taken out. A disk that encrypts by itself cannot be told apart: say true for it.",
    ),
    cfg.IntOpt(
        "pull_mib",
        default=256,
        min=1,
        max=MOST_MIB,
        help="MiB that are taken from one VM at a time, at most.",
    ),
    cfg.IntOpt(
        "keep_free_mib",
        default=512,
        min=0,
        max=MOST_MIB,
        help="MiB of disk swap that are left free for everybody else.",
    ),
    cfg.FloatOpt(
        "psi_stop",
        default=10.0,
        min=0.1,
        max=100,
        help="Percent of time that a VM's threads wait for memory, by the memory.pressure of its cgroup; from here on "
        "nothing more is taken from it.",
    ),
    cfg.FloatOpt(
        "patience",
        default=30.0,
        min=1,
        help="Seconds after which taking from one VM ends, however much was to be taken.",
    ),
    cfg.IntOpt(
        "read_ahead_mib",
        default=512,
        min=0,
        max=MOST_MIB,
        help="MiB a second, at most, that are read ahead of what a VM has in swap when it wakes, as long as the VM "
        "uses it and the host keeps its reserve. 0: a VM waits for each page by itself.",
    ),
    cfg.IntOpt(
        "cold_after",
        default=60,
        min=10,
        help="Seconds without a touch after which memory rests, for [ladder] always; readings tell 10, 60, 600 and "
        "3600. Of a VM that had more back than cold_back_percent, the next longer one holds from then on.",
    ),
    cfg.FloatOpt(
        "cold_back_percent",
        default=0.2,
        min=0,
        max=100,
        help="Percent of what a VM uses that may come back from swap within a minute while [ladder] always sends "
        "memory there. With more, nothing is sent until the next reading of active memory.",
    ),
    cfg.FloatOpt(
        "settle",
        default=8.0,
        min=1,
        max=600,
        help="Seconds that a VM is given to touch what it uses before anything is taken from it, and to have back what "
        "it needs of what was taken before more is.",
    ),
)


def check(conf: cfg.ConfigOpts) -> None:
    """What rests is known by active memory only.

    :raises ConfigError: where that is not read, or not for so long
    """
    if Rung.SWAP_OUT not in conf.ladder.always:
        return
    active, after = conf.active, conf.swap_out.cold_after
    if active.source == "off" or not active.cpu_percent:
        raise ConfigError(None, "[ladder] always", "swap_out: needs [active] source and cpu_percent")
    if active.source == "referenced" and active.round < after:
        raise ConfigError(None, "[swap_out] cold_after", f"{after}: use no more than [active] round ({active.round:g})")
