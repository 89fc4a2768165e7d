"""What a fresh Keystone has to hold: the services' users, and where each service is."""

from __future__ import annotations

from typing import Any

from openstack.connection import Connection

from lab.openstack.network import Network
from lab.openstack.services import APIS, KEYSTONE
from lab.openstack.settings import PASSWORD, REGION

USERS = {
    "placement": ("admin", "service"),
    "glance": ("admin", "service"),
    "neutron": ("admin", "service"),
    "nova": ("admin", "service"),
    "memhint": ("service",),
}
"""Service users and their roles in the project "service"; memhint's is for what is plugged in."""


def credentials(network: Network, user: str = "admin", project: str = "admin") -> dict[str, str]:
    """OS_* variables of a user, as clients read them."""
    return {
        "OS_AUTH_TYPE": "password",
        "OS_AUTH_URL": network.url(KEYSTONE.port, KEYSTONE.path),
        "OS_USERNAME": user,
        "OS_PASSWORD": PASSWORD,
        "OS_PROJECT_NAME": project,
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": REGION,
        "OS_IDENTITY_API_VERSION": "3",
        "OS_COMPUTE_API_VERSION": "2.96",
        "OS_PLACEMENT_API_VERSION": "1.39",
    }


def connect(network: Network, user: str = "admin", project: str = "admin") -> Connection:
    """A client of every service of the stack."""
    return Connection(
        auth={
            "auth_url": network.url(KEYSTONE.port, KEYSTONE.path),
            "username": user,
            "password": PASSWORD,
            "project_name": project,
            "user_domain_id": "default",
            "project_domain_id": "default",
        },
        region_name=REGION,
        compute_default_microversion="2.96",
        placement_default_microversion="1.39",
    )


def fill(cloud: Connection, network: Network) -> None:
    """Make users, roles and endpoints."""
    identity: Any = cloud.identity  # of the version that Keystone has: the client's types allow for older ones
    project = identity.create_project(name="service", domain_id="default")
    roles = {role.name: role for role in identity.roles()}
    for name, wanted in USERS.items():
        user = identity.create_user(name=name, password=PASSWORD, domain_id="default")
        for role in wanted:
            if role not in roles:
                roles[role] = identity.create_role(name=role)
            identity.assign_project_role_to_user(project, user, roles[role])
    for api in APIS:
        if api is not KEYSTONE:
            service = identity.create_service(name=api.name, type=api.type)
            for interface in ("public", "internal", "admin"):
                identity.create_endpoint(
                    service_id=service.id, interface=interface, url=network.url(api.port, api.path), region_id=REGION
                )
