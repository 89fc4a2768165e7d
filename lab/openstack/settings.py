"""Configuration files of the services, from the templates in conf/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

_CONF = Path(__file__).resolve().parent / "conf"

PASSWORD = "memhint-lab"
"""Of every user of a stack. The services listen on loopback only."""
REGION = "lab"
DATABASES = ("keystone", "placement", "glance", "neutron", "nova_api", "nova_cell0", "nova_cell1")

_LOGIN = """\
auth_type = password
auth_url = $keystone_url
username = $user
password = $password
project_name = service
user_domain_id = default
project_domain_id = default
"""
"""How a service proves who it is: wanted in each section about another service, and none can refer to another's."""

TEMPLATES: Mapping[str, Sequence[str]] = {
    "keystone": ("keystone",),
    "placement": ("placement", "login"),
    "glance-api": ("glance", "login"),
    "neutron": ("neutron", "login"),
    "nova-api": ("nova", "login", "nova-database", "nova-control"),
    "nova-conductor": ("nova", "login", "nova-database", "nova-control"),
    "nova-scheduler": ("nova", "login", "nova-database", "nova-control"),
    "libvirt": ("nova", "login", "nova-compute", "nova-libvirt"),
    "fake": ("nova", "login", "nova-compute"),
}
"""Templates that a service's file is joined from. What comes later wins, and lists of options grow."""


def write(folder: Path, kind: str, variables: Mapping[str, object], name: str | None = None, more: str = "") -> Path:
    """Write NAME.conf (default: the kind's name) of a service of this kind.

    :param variables: what stands for $name in the templates; KeyError when one is missing
    :param more: text that is added at the end
    """
    text = "\n".join((_CONF / f"{one}.conf").read_text() for one in TEMPLATES[kind]).replace("$login\n", _LOGIN)
    file = folder / f"{name or kind}.conf"
    file.write_text(Template(text).substitute(variables) + ("\n" + more if more else ""))
    return file
