"""[openstack]: what the controllers may do with Placement and Nova, and as whom."""

from __future__ import annotations

from oslo_config import cfg

from memhint.conf.amounts import MOST_MIB

GROUP = "openstack"

OPTS = (
    cfg.StrOpt(
        "capacity",
        default="off",
        choices=[
            ("off", "Placement is left alone"),
            ("observe", "say in the log what would be written, and write nothing"),
            ("write", "keep the allocation ratio of MEMORY_MB of every host that has a provider"),
        ],
        help="What controllers do with the room that hosts report.",
    ),
    cfg.FloatOpt("interval", default=2.0, min=0.1, help="Seconds between two looks at what the hosts report."),
    cfg.FloatOpt("max_ratio", default=1.5, min=0, max=100, help="The largest allocation ratio that is ever written."),
    cfg.FloatOpt(
        "quantum",
        default=0.01,
        min=0.0001,
        max=1,
        help="Steps in which the allocation ratio moves, always rounded down.",
    ),
    cfg.IntOpt(
        "smallest_vm_mib",
        default=256,
        min=1,
        max=MOST_MIB,
        help="Size in MiB of the smallest VM that Nova may place on these hosts. Placement counts no overhead of QEMU:"
        " the ratio leaves room for that of as many such VMs as fit. More is room for more large VMs, and too much"
        " promised where many small ones come at once.",
    ),
    cfg.FloatOpt(
        "refresh",
        default=60.0,
        min=0,
        help="Seconds after which a provider is read again although nothing tells that it has changed.",
    ),
    cfg.DictOpt(
        "providers",
        default={},
        help="Resource providers of hosts whose name is not their provider's: HOST:UUID,HOST:UUID. A host's claim of a"
        " provider that bears another name counts for nothing unless it stands here.",
    ),
    cfg.BoolOpt(
        "instances",
        default=True,
        help="Follow Nova's list of servers, where controllers can log in: whose a VM is and where it runs is Nova's"
        " word then, and no host's. Otherwise a project sees the VMs that hosts say are its own.",
    ),
    cfg.FloatOpt(
        "instances_interval", default=30.0, min=1, help="Seconds between two looks at which servers have changed."
    ),
    cfg.BoolOpt(
        "migrate",
        default=False,
        help="Ask Nova for a live migration of the VM that a host under pressure names. Off: it is an event only. It"
        " needs no capacity, but the login below.",
    ),
    cfg.FloatOpt(
        "migrate_pause", default=300.0, min=1, help="Seconds between two live migrations that are asked for one host."
    ),
    cfg.StrOpt(
        "auth_type",
        default="password",
        choices=[
            ("password", "username and password of a service user"),
            ("v3applicationcredential", "an application credential"),
            ("admin_token", "a token that the services take without Keystone: for tests of Placement alone"),
        ],
        help="How controllers log in.",
    ),
    cfg.StrOpt("auth_url", default="", help="URL of Keystone: https://keystone.example.org/v3, say."),
    cfg.StrOpt("username", default="memhint", help="Name of the service user, for auth_type = password."),
    cfg.StrOpt("password", default="", secret=True, help="Password of the service user."),
    cfg.StrOpt("project_name", default="service", help="Project of the service user."),
    cfg.StrOpt("user_domain_name", default="Default", help="Domain of the service user."),
    cfg.StrOpt("project_domain_name", default="Default", help="Domain of that project."),
    cfg.StrOpt("application_credential_id", default="", help="For auth_type = v3applicationcredential."),
    cfg.StrOpt("application_credential_secret", default="", secret=True, help="The secret that goes with it."),
    cfg.StrOpt("token", default="", secret=True, help="For auth_type = admin_token."),
    cfg.StrOpt(
        "ca_file",
        default="",
        help="Path of the certificates that may have signed the services' (PEM). Empty: those that requests trusts.",
    ),
    cfg.FloatOpt("timeout", default=20.0, min=1, help="Seconds in which a service must answer."),
    cfg.StrOpt("interface", default="internal", help="Which of a service's endpoints is used."),
    cfg.StrOpt("region_name", default="", help="The region whose services are used. Empty: the only one."),
    cfg.StrOpt("placement_url", default="", help="URL of Placement, where the catalogue's is not to be used."),
    cfg.StrOpt("nova_url", default="", help="URL of Nova, where the catalogue's is not to be used."),
)
