"""`openstack memhint`: how OpenStackClient makes the client that the commands ask.

Found by the entry points openstack.cli.extension and openstack.memhint.v1. OpenStackClient hands over its login; the
service's address comes from the catalogue (type memhint), or from what the way to log in says (--os-endpoint).
"""

from __future__ import annotations

import argparse
from typing import Any

from keystoneauth1.adapter import Adapter

from memhint.client.client import Client
from memhint.client.session import SERVICE
from memhint.client.settings import MICROVERSION
from memhint.client.transport import Transport

API_NAME = "memhint"
API_VERSION_OPTION = "os_memhint_api_version"
DEFAULT_API_VERSION = MICROVERSION
API_VERSIONS = {MICROVERSION: "memhint.client.client.Client"}


def make_client(instance: Any) -> Client:
    """A client over OpenStackClient's session."""
    adapter = Adapter(
        instance.session,
        service_type=SERVICE,
        interface=instance.interface,
        region_name=instance.region_name,
        default_microversion=instance._api_version[API_NAME],
        client_name="memhint",
    )
    return Client(Transport(adapter))


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the version."""
    parser.add_argument(
        "--os-memhint-api-version",
        metavar="<memhint-api-version>",
        default=DEFAULT_API_VERSION,
        help=f"Version of the API of memhint (default: {DEFAULT_API_VERSION})",
    )
    return parser
