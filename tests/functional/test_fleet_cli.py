"""The commands on a fleet, against a real `memhint api` over a synthetic fleet."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

from lab.servers.ports import free_ports
from memhint.client.client import Client
from memhint.client.errors import BadRequest, Expired
from memhint.client.follow import ChangesLost, Connected
from memhint.client.session import transport_of
from memhint.client.settings import Settings
from memhint.objects.event import Event
from memhint.objects.lever import LeverName
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.fleet import HostRecord
from tests.functional.fleet_api import FLEET, PATIENCE, SMALL, FleetApi
from tests.functional.processes import ROOT

HOARDER = f"build-{FLEET.hoarder}-19"
VMS = FLEET.shape.hosts * FLEET.shape.vms


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetApi]:
    found = FleetApi(tmp_path_factory.mktemp("fleet"))
    yield found
    found.close()


def client(api: FleetApi, **more: Any) -> Client:
    return Client(transport_of(Settings(api.url, api.token("admin"), **more)))


def shown(api: FleetApi, *words: str, who: str | None = "admin") -> Any:
    result = api.memhint(*words, "-f", "json", who=who)
    assert (result.returncode, result.stderr) == (0, ""), result
    return json.loads(result.stdout)


# Lists


def test_a_list_longer_than_any_answer_is_whole(api: FleetApi) -> None:
    found = shown(api, "vms", "--sort", "unreported:desc")
    assert VMS > 1000
    assert len({one["uuid"] for one in found}) == len(found) == VMS
    assert found[0]["uuid"] == FLEET.most_unreported
    known = [one["unreported"] for one in found if one["unreported"] is not None]
    assert known == sorted(known, reverse=True)


def test_a_list_is_as_long_as_it_is_asked_to_be(api: FleetApi) -> None:
    assert len(shown(api, "vms", "--limit", "1001")) == 1001
    assert [one["name"] for one in shown(api, "hosts", "--limit", "2")] == ["compute-0000", "compute-0001"]


def test_vms_are_chosen_by_host_project_name_and_state(api: FleetApi) -> None:
    assert len(shown(api, "vms", "--host", "compute-0003")) == FLEET.shape.vms
    assert {one["project"] for one in shown(api, "vms", "--project", "green")} == {"green"}
    assert HOARDER in [one["name"] for one in shown(api, "vms", "--name", HOARDER[:-1])]
    assert {one["state"] for one in shown(api, "vms", "--state", "shutoff")} == {"shutoff"}


def test_people_see_mib_and_programs_bytes(api: FleetApi) -> None:
    (one,) = shown(api, "vms", "--name", HOARDER)
    table = api.memhint("vms", "--name", HOARDER).stdout
    assert f" {round(one['assigned'] / (1 << 20))} |" in table
    assert "1 shown, memory in MiB." in table
    assert api.memhint("vms", "--name", HOARDER, "-f", "value", "-c", "assigned").stdout == f"{one['assigned']}\n"


def test_nothing_to_show_is_said(api: FleetApi) -> None:
    assert api.memhint("vms", "--name", "nobody").stdout.endswith("There are none.\n")
    assert shown(api, "vms", "--name", "nobody") == []
    assert api.memhint("vms", "--name", "nobody", "-f", "value", "-c", "uuid").returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["host", "history", "compute-0003"],
        ["vm", "history", HOARDER],
        ["history", "--since", "2h", "--step", "10m"],
        ["events", "--since", "1h"],
        ["refusals", "--host", "compute-0003"],
    ],
    ids=" ".join,
)
def test_what_was_is_shown(api: FleetApi, words: list[str]) -> None:
    assert isinstance(shown(api, *words), list)
    assert api.memhint(*words).stdout.endswith(".\n")


def test_what_levers_refused_has_its_reason(api: FleetApi) -> None:
    found = shown(api, "refusals", "--limit", "3")
    assert {one["reason"] for one in found} == {"consent"}
    assert len(found) == 3


def test_one_thing_is_shown_in_full(api: FleetApi) -> None:
    assert shown(api, "host", "show", "compute-0003")["capacity"]["pool"] > 0
    by_name, by_uuid = shown(api, "vm", "show", HOARDER), shown(api, "vm", "show", FLEET.most_unreported.upper())
    assert by_name == by_uuid
    table = api.memhint("vm", "show", HOARDER).stdout
    assert "Reclaimable by reporting" in table
    assert "Policy dedup" in table
    told = api.memhint("host", "show", "compute-0011").stdout
    assert "Term model" in told
    assert told.count("eadroom") == 1  # said once, as of now


# Acting


def test_a_wish_is_shown_set_and_taken_back(api: FleetApi) -> None:
    vm = shown(api, "vms", "--host", "compute-0005", "--limit", "1")[0]["uuid"]
    dry = shown(api, "policy", "set", vm, "balloon=allow", "--dry-run")
    assert [one["key"] for one in dry["changes"]] == ["balloon"]
    assert shown(api, "policy", "show", vm)["balloon"]["origin"] != "operator"
    stored = api.memhint("policy", "set", vm, "balloon=allow", "swap_out=allow")
    assert (stored.returncode, "Stored" in stored.stdout) == (0, True)
    assert shown(api, "policy", "show", vm)["balloon"] == {"value": "allow", "origin": "operator"}
    assert api.memhint("policy", "set", vm, "balloon=inherit").returncode == 0
    policy = shown(api, "policy", "show", vm)
    assert policy["balloon"]["origin"] != "operator"
    assert policy["swap_out"]["origin"] == "operator"
    assert api.memhint("policy", "clear", vm).returncode == 0
    assert shown(api, "policy", "show", vm)["swap_out"]["origin"] != "operator"
    assert "Nothing changes" in api.memhint("policy", "clear", vm).stdout


@pytest.mark.parametrize("wish", ["balloon=perhaps", "ballon=allow"])
def test_a_wish_that_there_is_not_is_wrong_usage(api: FleetApi, wish: str) -> None:
    result = api.memhint("policy", "set", HOARDER, wish)
    assert result.returncode == 2
    assert "HTTP 400" in result.stderr


def test_vms_are_placed_on_paper(api: FleetApi) -> None:
    plan = shown(api, "place", "--memory", "1GiB", "--count", "5")
    assert plan["placed"] == sum(one["placed"] for one in plan["hosts"]) == 5
    assert "5 of 5 placed" in api.memhint("place", "--memory", "1GiB", "--count", "5").stdout


def test_what_does_not_fit_is_a_refusal(api: FleetApi) -> None:
    result = api.memhint("place", "--memory", "1GiB", "--count", "2", "--host", "compute-0011", "--long")
    assert result.returncode == 5
    assert "pressure" in result.stdout
    assert result.stderr.startswith("0 of 2 fit")


def test_a_request_is_queued_listed_shown_and_interrupted(api: FleetApi) -> None:
    words = ("reclaim", "create", HOARDER, "--bytes", "64MiB", "--reason", "a test", "--no-wait")
    number = api.memhint(*words, "-f", "value", "-c", "id").stdout.strip()
    (listed,) = [one for one in shown(api, "reclaim", "list", "--vm", HOARDER) if one["id"] == number]
    assert (listed["bytes"], listed["reason"], listed["state"]) == (64 << 20, "a test", "queued")
    assert shown(api, "reclaim", "show", number) == listed
    assert number in api.memhint("reclaim", "list", "--since", "1h").stdout
    assert api.memhint("reclaim", "interrupt", number).returncode == 0


def test_the_examples_of_the_documentation_work(api: FleetApi) -> None:
    number = ""
    lines = (ROOT / "doc" / "cli.md").read_text().splitlines()
    examples = [
        line.removeprefix("    $ memhint ").partition(" | ")[0] for line in lines if line.startswith("    $ memhint ")
    ]
    assert len(examples) > 15
    for example in examples:
        words = shlex.split(example)
        if words[:2] in (["reclaim", "show"], ["reclaim", "interrupt"]):
            words[2] = number
        result = api.memhint(*words)
        assert (result.returncode, result.stderr) == (0, ""), example
        if words[:2] == ["reclaim", "create"]:
            number = result.stdout.strip()


# Refused, away


@pytest.mark.parametrize(
    ("words", "who", "code", "said"),
    [
        (["hosts"], None, 7, "HTTP 401, memhint.unauthenticated"),
        (["hosts"], "own", 7, "HTTP 403, memhint.forbidden"),
        (["policy", "set", HOARDER, "dedup=on"], "reader", 7, "HTTP 403"),
        (["reclaim", "create", HOARDER], "service", 7, "HTTP 403"),
        (["host", "show", "nobody"], "admin", 3, "see: memhint hosts"),
        (["vm", "show", "nobody"], "admin", 3, "no VM that you may see is called 'nobody'"),
        (["vm", "show", "00000000-0000-4000-8000-000000000000"], "admin", 3, "see: memhint vms"),
        (["reclaim", "show", "nobody"], "admin", 3, "see: memhint reclaim list"),
        (["vms", "--sort", "beauty"], "admin", 2, "KEY one of"),
        (["vms", "--limit", "0"], "admin", 2, "--limit"),
        (["history", "--since", "yesterday"], "admin", 2, "write 6h"),
        (["place", "--memory", "much"], "admin", 2, "no size"),
        (["vms", "--watch", "-f", "csv"], "admin", 2, "shows a table or JSON"),
        (["vms", "--watch", "-f", "json", "-c", "Name"], "admin", 2, "leave --column away"),
        (["events", "--watch", "-c", "At"], "admin", 2, "leave --column away"),
        (["vms", "--token-file", "/nowhere"], "admin", 2, "/nowhere"),
        (["vms", "--api", "127.0.0.1:8790"], "admin", 2, "write http://"),
        (["vms", "--api", "http://127.0.0.1:1"], "admin", 6, "Connection refused"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_refused_says_why_and_what_to_do(
    api: FleetApi, words: list[str], who: str | None, code: int, said: str
) -> None:
    result = api.memhint(*words, who=who)
    assert result.returncode == code, result
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_who_has_a_project_sees_its_vms_and_no_others(api: FleetApi) -> None:
    found = shown(api, "vms", who="own")
    assert {one["project"] for one in found} == {"violet"}
    assert 0 < len(found) < VMS
    other = shown(api, "vms", "--project", "green", "--limit", "1")[0]
    assert api.memhint("vm", "show", other["uuid"], who="own").returncode == 3
    assert api.memhint("vm", "show", other["name"], who="own").returncode == 3


def test_a_token_from_the_configuration_is_shown(api: FleetApi, tmp_path: Path) -> None:
    config = tmp_path / "memhint.conf"
    config.write_text(f"[client]\nurl = {api.url}\ntoken_file = {api.token_file('reader')}\n")
    environ = {name: value for name, value in api.environ(None).items() if name != "MEMHINT_API"}
    command = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(config), "hosts", "-f", "value"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environ)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_token_that_is_nobodys_is_not_repeated(api: FleetApi) -> None:
    environ = {**api.environ(None), "MEMHINT_TOKEN": "hunter2hunter2"}
    command = [sys.executable, "-m", "memhint.cli.main", "--debug", "vms"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environ)
    assert result.returncode == 7
    assert "hunter2" not in result.stderr + result.stdout


def test_a_version_that_there_is_not_is_refused(api: FleetApi) -> None:
    with pytest.raises(BadRequest, match="HTTP 406"):
        client(api, microversion="9.9").host("compute-0000")


def test_changes_that_can_no_longer_be_told_begin_anew(api: FleetApi) -> None:
    never = "9" * 18
    with pytest.raises(Expired, match=r"memhint\.changed_since\.expired"):
        client(api).changed_hosts(never)
    assert list(islice(client(api).follow(never), 2)) == [ChangesLost(), Connected()]


def test_a_certificate_must_be_known(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=memhint -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    api = FleetApi(tmp_path, {"cert_file": str(cert), "key_file": str(key)}, SMALL)
    try:
        unknown = api.memhint("hosts")
        assert unknown.returncode == 6
        assert "certificate" in unknown.stderr.lower()
        config = tmp_path / "memhint.conf"
        config.write_text(f"[client]\nca_file = {cert}\n")
        assert api.memhint("--config-file", str(config), "hosts").returncode == 0
    finally:
        api.close()


# Live


class Watching:
    """A command that goes on, with its lines as they come."""

    def __init__(self, api: FleetApi, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "memhint.cli.main", *words, "--watch"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=api.environ("admin"),
        )
        self.out, self.err = self._lines(self._process.stdout), self._lines(self._process.stderr)

    def until(self, word: str, lines: Queue[str] | None = None) -> str:
        """The first line with this word, from here on."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                line = (lines or self.out).get(timeout=max(0.01, end - time.monotonic()))
            except Empty:
                raise AssertionError(f"no line with {word!r} came; {list(self.err.queue)}") from None
            if word in line:
                return line

    def interrupt(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _lines(self, file: Any) -> Queue[str]:
        lines: Queue[str] = Queue()
        threading.Thread(target=lambda: [lines.put(line) for line in file], daemon=True).start()
        return lines


@contextmanager
def watching(api: FleetApi, *words: str) -> Iterator[Watching]:
    found = Watching(api, *words)
    try:
        yield found
    finally:
        found.close()


def test_a_change_of_a_host_is_seen(api: FleetApi) -> None:
    with watching(api, "hosts", "-f", "json") as live:
        assert len(json.loads(live.until("hosts"))["hosts"]) == FLEET.shape.hosts
        api.change(7, 3 * 600.0)
        told = json.loads(live.until("compute-0007"))
        assert [one["name"] for one in told["hosts"]] == ["compute-0007"]
        assert live.interrupt() == 0


def test_a_table_is_shown_anew(api: FleetApi) -> None:
    with watching(api, "hosts", "--sort", "headroom:desc", "--limit", "60") as live:
        live.until("compute-0008")
        live.until(f"{FLEET.shape.hosts} of {FLEET.shape.hosts}, memory in MiB")
        api.change(8, 5 * 600.0)
        live.until("compute-0008")
        assert live.interrupt() == 0


def test_a_change_of_a_vm_is_seen_by_those_who_look_at_it(api: FleetApi) -> None:
    with watching(api, "vms", "--host", "compute-0009", "-f", "json") as live:
        begin = json.loads(live.until("domains"))["domains"]
        assert {one["host"] for one in begin} == {"compute-0009"}
        api.change(10, 7 * 600.0)
        api.change(9, 7 * 600.0)
        told = json.loads(live.until("domains"))
        assert {one["host"] for one in told["domains"]} == {"compute-0009"}
        assert live.interrupt() == 0


def test_an_event_is_seen_once_as_it_happens(api: FleetApi) -> None:
    with watching(api, "events", "-f", "json", "--host", "compute-0012") as live:
        live.until("compute-0012")
        verdict = Verdict(Answer.REFUSED, Reason.CONSENT, "only just now")
        event = Event(time.time(), "compute-0012", "host", LeverName.DEDUP, "on", verdict)
        api.store.fleet.take([], [HostRecord("compute-0012", (), (event,), 0)])
        assert json.loads(live.until("only just now"))["lever"] == "dedup"
        assert live.interrupt() == 0
        assert not [line for line in list(live.out.queue) if "only just now" in line]


def test_watching_outlives_the_server(tmp_path: Path) -> None:
    (port,) = free_ports(1)  # one that nobody shared before: the second process is to have it too
    api = FleetApi(tmp_path, {"listen": f"127.0.0.1:{port}"}, SMALL)
    try:
        with watching(api, "hosts", "-f", "json") as live:
            live.until("hosts")
            api.change(3, 600.0)
            live.until("compute-0003")
            api.stop()
            live.until("trying again", live.err)
            api.change(4, 1200.0)
            api.start()
            live.until("compute-0004")
            assert live.interrupt() == 0
    finally:
        api.close()


# openstack memhint


def test_openstackclient_has_the_same_commands(api: FleetApi) -> None:
    login = ("--os-auth-type", "admin_token", "--os-token", api.token("admin"))
    result = api.openstack(*login, "memhint", "host", "list", "-f", "json")
    assert result.returncode == 0, result
    assert [one["name"] for one in json.loads(result.stdout)] == [one["name"] for one in shown(api, "hosts")]
    result = api.openstack(*login, "memhint", "vm", "list", "--sort", "unreported:desc", "--limit", "1")
    assert HOARDER in result.stdout
    assert "1 shown, memory in MiB." in result.stdout
    missing = api.openstack(*login, "memhint", "host", "show", "nobody")
    assert (missing.returncode, "see: openstack memhint host list" in missing.stderr) == (3, True), missing


def test_openstackclient_without_a_login(tmp_path: Path, api: FleetApi) -> None:
    refused = api.openstack("--os-auth-type", "none", "memhint", "host", "list")
    assert refused.returncode == 7, refused
    assert "--os-token" in refused.stderr
    alone = FleetApi(tmp_path, {"auth": "none"}, SMALL)
    try:
        result = alone.openstack("--os-auth-type", "none", "memhint", "host", "list", "-f", "value", "-c", "name")
        assert len(result.stdout.split()) == SMALL.shape.hosts, result
    finally:
        alone.close()
