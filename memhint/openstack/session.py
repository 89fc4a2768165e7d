"""Who memhint is to Keystone: a service user from [openstack], as every OpenStack service configures one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import requests
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException
from keystoneauth1.session import Session
from oslo_config import cfg

from memhint.conf.openstack import GROUP
from memhint.http_deadline import Deadline, watched_session
from memhint.http_errors import UNFORESEEN, first_error, one_line
from memhint.openstack.errors import NotThere, OpenStackError, Outdated, Unreachable

_NEEDED = {
    "password": ("auth_url", "username", "password", "project_name", "user_domain_name", "project_domain_name"),
    "v3applicationcredential": ("auth_url", "application_credential_id", "application_credential_secret"),
    "admin_token": ("token",),
}
"""What each way to log in takes of [openstack]."""

LARGEST = 64 << 20  # bytes of one answer; a thousand servers are a tenth of it
WHOLE = 3  # times [openstack] timeout, in which an answer must be whole: that one begins again with each byte
_PIECE = 1 << 16


class ServiceClient:
    """One service of the catalogue at one microversion; errors in our own type."""

    def __init__(self, adapter: Adapter, microversion: str, deadline: Deadline, seconds: float) -> None:
        """:param deadline: what hangs up where an answer is not whole after so many seconds."""
        self._adapter = adapter
        self._microversion = microversion
        self._deadline = deadline
        self._seconds = seconds

    def get(self, path: str) -> Any:
        """The answer's JSON.

        :raises NotThere: when there is none
        :raises OpenStackError: when the service cannot be reached or refuses
        """
        return self._ask("GET", path, None)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer's JSON.

        :raises Outdated: when it was changed since it was read
        :raises OpenStackError: when the service cannot be reached or refuses
        """
        return self._ask("PUT", path, body)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer's JSON, None where it has none.

        :raises OpenStackError: when the service cannot be reached or refuses
        """
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        more = {} if body is None else {"json": dict(body)}
        with self._deadline.within(self._seconds) as late:
            try:
                answer, content = self._answer(method, path, more)
            except (ClientException, requests.RequestException, *UNFORESEEN) as error:
                foreseen = isinstance(error, (ClientException, requests.RequestException))
                why = one_line(error) if foreseen else repr(error)
                if late.is_set():
                    why = self._late()
                raise Unreachable(f"{self._adapter.service_type} cannot be asked: {why}; see [{GROUP}]") from error
        if late.is_set():  # what had come until then may look like an answer
            raise Unreachable(f"{self._adapter.service_type} cannot be asked: {self._late()}; see [{GROUP}]")
        if answer.status_code == 404:
            raise NotThere(f"{method} {path}: not found")
        if answer.status_code == 409:
            raise Outdated(f"{method} {path}: {_why(content)}")
        if answer.status_code >= 300:  # also a redirect that led nowhere: nothing was done
            raise OpenStackError(f"{method} {path}: {answer.status_code} {_why(content)}")
        try:
            return json.loads(content) if content else None
        except (ValueError, RecursionError) as error:
            raise OpenStackError(f"{method} {path}: the answer is no JSON") from error

    def _answer(self, method: str, path: str, more: Mapping[str, Any]) -> tuple[requests.Response, bytes]:
        """The answer, and what is in it.

        :raises OpenStackError: when it is larger than any that is asked for
        """
        answer = self._adapter.request(
            path,
            method,
            microversion=self._microversion,
            raise_exc=False,
            # With a log keystoneauth would read all of it, however large it is.
            log=False,
            stream=True,
            **more,
        )
        with answer:
            content = bytearray()
            for piece in answer.iter_content(_PIECE):
                content += piece
                if len(content) > LARGEST:
                    raise OpenStackError(f"{method} {path}: the answer has more than {LARGEST >> 20} MiB")
        return answer, bytes(content)

    def _late(self) -> str:
        return f"its answer was not whole after {self._seconds:g} s"


def service(conf: cfg.ConfigOpts, kind: str, microversion: str, url: str) -> ServiceClient:
    """A service of the catalogue, or at ``url`` where that is not empty. Nothing is asked yet.

    :raises OpenStackError: when [openstack] does not say enough to log in
    """
    options = conf[GROUP]
    asking, deadline = watched_session()
    auth = _login(options, url)
    session = Session(auth=auth, session=asking, verify=options.ca_file or True, timeout=options.timeout)
    adapter = Adapter(
        session,
        service_type=kind,
        interface=options.interface,
        region_name=options.region_name or None,
        endpoint_override=url or None,
        connect_retries=1,
        user_agent="memhint",
    )
    return ServiceClient(adapter, microversion, deadline, WHOLE * options.timeout)


def _login(options: cfg.ConfigOpts, url: str) -> Any:
    names = _NEEDED[options.auth_type]
    given = {name: options[name] for name in names}
    missing = [name for name, value in given.items() if not value]
    if missing:
        raise OpenStackError(f"[{GROUP}] {missing[0]} is empty: auth_type = {options.auth_type} needs it")
    if options.auth_type == "admin_token":
        given["endpoint"] = url
    try:
        return loading.get_plugin_loader(options.auth_type).load_from_options(**given)
    except ClientException as error:
        raise OpenStackError(f"[{GROUP}]: {error}") from error


def _why(content: bytes) -> str:
    try:
        found = first_error(json.loads(content))
    except (ValueError, RecursionError):
        found = {}
    return one_line(found.get("detail") if found else content[:200].decode(errors="replace"))
