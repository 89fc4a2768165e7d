"""The three ways to tell who asks."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from keystoneauth1.exceptions import ConnectFailure, ConnectTimeout, DiscoveryFailure, EndpointNotFound, NotFound
from keystoneauth1.fixture import V3Token
from keystonemiddleware.auth_token import ServiceError
from keystonemiddleware.fixture import AuthTokenFixture

from memhint.api.auth import is_loopback
from memhint.api.keystone import _patience
from memhint.conf import ConfigError
from tests.unit.api.site import OTHER, OWN, Site

KEYSTONE_AT = "password\nauth_url = {url}\nusername = memhint\npassword = sesame"
KEYSTONE = {"auth": "keystone", "keystone_authtoken.auth_type": KEYSTONE_AT.format(url="http://127.0.0.1:9/")}


@pytest.fixture
def keystone() -> Iterator[AuthTokenFixture]:
    fixture = AuthTokenFixture()
    with fixture:
        yield fixture


def token_of(keystone: AuthTokenFixture, *roles: str, project: str | None = None, system: bool = False) -> str:
    token = V3Token(user_id="u1", user_name="alice", project_id=project, project_name=project and "name")
    if system:
        token.system = {"all": True}
    for role in roles:
        token.add_role(name=role)
    return str(keystone.add_token(token))


def test_keystones_roles_decide(make_site: Callable[..., Site], keystone: AuthTokenFixture) -> None:
    site = make_site(**KEYSTONE)
    uuid, other = site_domains(site)

    def status(token: str | None, path: str, method: str = "GET", **more: object) -> int:
        headers = {"X-Auth-Token": token} if token else {}
        return site.ask(method, path, None, headers=headers, **more).status_code

    admin = token_of(keystone, "admin", "manager", "member", "reader", project="ops")
    service = token_of(keystone, "service", project="service")
    system = token_of(keystone, "reader", system=True)
    mine = token_of(keystone, "member", "reader", project=OWN)
    nothing = token_of(keystone, "member", project=OWN)
    unscoped = token_of(keystone)
    wish = {"json": {"policy": {"dedup": "off"}}}
    assert [status(one, "/v1/hosts") for one in (admin, service, system, mine, nothing, unscoped, "x", None)] == [
        200,
        200,
        200,
        403,
        403,
        403,
        401,
        401,
    ]
    assert [status(one, f"/v1/domains/{uuid}") for one in (admin, system, mine, nothing)] == [200, 200, 200, 403]
    assert status(mine, f"/v1/domains/{other}") == 404
    assert [status(one, f"/v1/domains/{uuid}/policy", "PUT", **wish) for one in (admin, service, system, mine)] == [
        200,
        403,
        403,
        403,
    ]
    assert [status(one, "/healthz") for one in (None, "x", mine)] == [200, 200, 200]
    bearer = site.ask("GET", "/v1/hosts", None, headers={"Authorization": f"Bearer {admin}"})
    assert bearer.status_code == 200


@pytest.mark.parametrize(
    "away",
    [
        ConnectFailure("refused"),
        ConnectTimeout("no answer"),
        DiscoveryFailure("<html>"),
        EndpointNotFound("no identity in the catalog"),
        ServiceError("503"),
        KeyError("expires_at"),
        TypeError("argument of type 'NoneType' is not iterable"),
    ],
)
def test_while_keystone_cannot_be_asked_no_token_is_called_wrong(
    make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch, away: Exception
) -> None:
    def fails(*_words: object, **_more: object) -> None:
        raise away

    monkeypatch.setattr("keystonemiddleware.auth_token._identity.IdentityServer.verify_token", fails)
    site = make_site(**KEYSTONE)
    said = {"X-Auth-Token": "t", "X-Identity-Status": "Confirmed", "X-Roles": "admin", "X-User-Id": "mallory"}
    answer = site.ask("GET", "/v1/hosts", None, headers=said)
    assert (answer.status_code, answer.get_json()["errors"][0]["code"]) == (503, "memhint.keystone.away")
    assert answer.headers["Retry-After"]
    assert site.ask("GET", "/healthz", None, headers=said).status_code == 200
    assert site.ask("GET", "/v1/hosts", None).status_code == 401


def test_a_token_that_keystone_does_not_know_is_wrong(
    make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strategy:
        def verify_token(self, _token: str, **_more: object) -> None:
            raise NotFound(response=Mock(text="no such token"))

    monkeypatch.setattr("keystonemiddleware.auth_token._identity.IdentityServer._request_strategy", Strategy())
    answer = make_site(**KEYSTONE).ask("GET", "/v1/hosts", None, headers={"X-Auth-Token": "t"})
    assert (answer.status_code, answer.get_json()["errors"][0]["code"]) == (401, "memhint.token.unknown")


def test_a_keystone_that_hangs_is_not_waited_for_for_ever(
    make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memhint.api.keystone.TIMEOUT", 1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/"
        site = make_site(**{**KEYSTONE, "keystone_authtoken.auth_type": KEYSTONE_AT.format(url=url)})
        began = time.monotonic()
        assert site.ask("GET", "/v1/hosts", None, headers={"X-Auth-Token": "t"}).status_code == 503
        assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("said", "used"), [("", (5, 1)), ("\nhttp_connect_timeout = 30\nhttp_request_max_retries = 3", (30, 3))]
)
def test_what_an_operator_says_of_keystones_time_holds(
    make_site: Callable[..., Site], said: str, used: tuple[int, int]
) -> None:
    conf = make_site(
        **{**KEYSTONE, "keystone_authtoken.auth_type": KEYSTONE["keystone_authtoken.auth_type"] + said}
    ).conf
    found = {**conf.keystone_authtoken, **_patience(conf)}
    assert (found["http_connect_timeout"], found["http_request_max_retries"]) == used


@pytest.mark.parametrize("role", ["admin", "service", "reader"])
def test_the_administrator_of_a_customers_domain_has_no_say(
    make_site: Callable[..., Site], keystone: AuthTokenFixture, role: str
) -> None:
    token = V3Token(user_id="u1", user_name="alice", domain_id="customer-a", domain_name="customer-a")
    token.add_role(name=role)
    site = make_site(**KEYSTONE)
    uuid, _ = site_domains(site)
    headers = {"X-Auth-Token": str(keystone.add_token(token))}
    for method, path, more in (
        ("GET", "/v1/hosts", {}),
        ("GET", f"/v1/domains/{uuid}", {}),
        ("PATCH", f"/v1/domains/{uuid}/policy", {"json": {"policy": {"guest_actions": "allow"}}}),
    ):
        answer = site.ask(method, path, None, headers=headers, **more)
        assert (answer.status_code, answer.get_json()["errors"][0]["code"]) == (403, "memhint.token.domain")


def test_what_a_caller_says_of_himself_is_not_heard(make_site: Callable[..., Site], keystone: AuthTokenFixture) -> None:
    site = make_site(**KEYSTONE)
    said = {
        "X-Identity-Status": "Confirmed",
        "X-Roles": "admin",
        "X-User-Id": "mallory",
        "X-Project-Id": OWN,
        "OpenStack-System-Scope": "all",
    }
    assert site.ask("GET", "/v1/hosts", None, headers=said).status_code == 401
    mine = token_of(keystone, "reader", project=OWN)
    assert site.ask("GET", "/v1/hosts", None, headers={**said, "X-Auth-Token": mine}).status_code == 403
    plain = make_site()
    assert plain.ask("GET", "/v1/hosts", None, headers=said).status_code == 401
    assert plain.get("/v1/hosts", "own", headers=said).status_code == 403


def test_without_authentication_only_this_host_is_heard(make_site: Callable[..., Site]) -> None:
    site = make_site(auth="none")

    def status(address: str, host: str) -> int:
        return site.ask(
            "GET", "/v1/hosts", None, environ_overrides={"REMOTE_ADDR": address, "HTTP_HOST": host}
        ).status_code

    for host in ("localhost:8790", "127.0.0.1", "127.0.0.1:8790", "[::1]:8790", "localhost"):
        assert status("127.0.0.1", host) == 200
    assert status("::1", "localhost") == 200
    for host in (
        "evil.example",
        "evil.example:8790",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "",
    ):
        assert status("127.0.0.1", host) == 403
    assert status("10.0.0.1", "localhost") == 403


@pytest.mark.parametrize("listen", ["0.0.0.0:8790", "127.0.0.1:8790,10.0.0.1:8790", "[::]:8790", "host-a:8790"])
def test_no_authentication_on_an_address_that_others_reach_is_refused(
    make_site: Callable[..., Site], listen: str
) -> None:
    with pytest.raises(ConfigError, match="auth = none"):
        make_site(auth="none", listen=listen)


def test_without_its_file_of_tokens_it_does_not_start(make_site: Callable[..., Site], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="memhint token create"):
        make_site(token_file=str(tmp_path / "none"))


def test_an_operators_policy_file_decides_and_is_read_again(make_site: Callable[..., Site], tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"memhint:hosts:list": "role:admin"}))
    site = make_site(**{"oslo_policy.policy_file": str(path)})
    assert [site.get("/v1/hosts", who).status_code for who in ("admin", "reader")] == [200, 403]
    assert site.get("/v1/history", "reader").status_code == 200
    path.write_text(json.dumps({"memhint:hosts:list": "role:admin or role:reader"}))
    assert site.get("/v1/hosts", "reader").status_code == 200


@pytest.mark.parametrize(
    ("host", "own"),
    [
        *((name, True) for name in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost")),
        *((name, False) for name in ("0.0.0.0", "", "::", "127.0.0.1.a", "::ffff:10.0.0.1", "10.0.0.1")),
    ],
)
def test_loopback_addresses_are_told_from_others(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def site_domains(site: Site) -> tuple[str, str]:
    found = {one.project: one.uuid for one in site.store.domains.page(limit=1000).items}
    return found[OWN], found[OTHER]
