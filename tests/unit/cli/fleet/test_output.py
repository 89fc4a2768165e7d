from __future__ import annotations

import io
import json
from typing import Any

import pytest

from memhint.cli.exits import Exit
from memhint.cli.fleet.screen import Screen
from memhint.cli.fleet.watch import arranged
from tests.unit.cli.fleet.conftest import Desk
from tests.unit.client.fake_server import Reply, problem

MIB = 1 << 20
VM = "6f1d3c2a-0000-4000-8000-00000000000a"


def hosts(*found: dict[str, Any]) -> Reply:
    return Reply(body={"hosts": list(found), "changed": "1"})


def test_what_is_unknown_is_a_dash_and_never_nought(desk: Desk) -> None:
    desk.server.replies = [hosts({"name": "a", "psi": None, "headroom": None, "unreported": 0, "slots": None})]
    row = desk.run("hosts").out.splitlines()[3]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["a", "-", "-", "-", "-", "-", "0", "-", "-", "-", "-", "-", "-"]


def test_a_newer_server_may_tell_more(desk: Desk) -> None:
    desk.server.replies = [hosts({"name": "a", "beauty": {"x": 1}})] * 2
    assert json.loads(desk.run("hosts", "--json").out) == [{"name": "a", "beauty": {"x": 1}}]
    assert desk.run("hosts", "-f", "value").out == 'a {"x":1}\n'


def test_a_tier_is_asked_for_by_size_and_shown_host_by_host(desk: Desk) -> None:
    load = {"dram": 64 << 30, "used": 32 << 30, "active": 8 << 30, "vms": 16, "read": 15}
    gain = {"tier": 512 << 30, "vms": 64.0, "without": 32.0, "bound": "size"}
    told = {"name": "a", "state": "fresh", "domains": 16, "load": load, "tier_gain": gain}
    desk.server.replies = [hosts(told, {"name": "b", "load": None, "tier_gain": None})]
    out = desk.run("hosts", "--tier", "512GiB").out
    assert desk.server.asked[-1].query["tier"] == str(512 << 30)
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in out.splitlines() if row.startswith("|")]
    assert rows == [
        ["Host", "State", "VMs", "Used", "Active", "Without tier", "With tier", "Bounded by"],
        ["a", "fresh", "16", "32768", "8192", "32.0", "64.0", "DRAM and tier are full"],
        ["b", "-", "-", "-", "-", "-", "-", "-"],
    ]
    desk.server.replies = [hosts(told)]
    assert "64.0" in desk.run("hosts", "--long").out
    assert "tier" not in desk.server.asked[-1].query


def test_a_tier_is_not_watched(desk: Desk) -> None:
    assert desk.run("hosts", "--tier", "512GiB", "--watch").code == Exit.USAGE
    assert desk.run("hosts", "--tier", "0").code == Exit.USAGE
    assert desk.server.asked == []


def test_a_host_says_what_a_tier_would_give(desk: Desk) -> None:
    load = {"dram": 64 << 30, "used": 32 << 30, "active": 8 << 30, "vms": 16, "read": 15}
    gain = {"tier": 512 << 30, "vms": 64.0, "without": 32.0, "bound": "active"}
    desk.server.replies = [Reply(body={"host": {"name": "a", "tier": {"load": load, "gains": [gain]}}})]
    out = desk.run("host", "show", "a", "--tier", "512GiB").out
    assert desk.server.asked[-1].query == {"tier": str(512 << 30)}
    assert "8192 MiB of 32768 MiB that 16 VMs have, 15 of them read" in out
    assert "64.0 VMs like these, 32.0 without it: what is active takes half of DRAM" in out
    desk.server.replies = [Reply(body={"host": {"name": "a", "tier": None}})]
    assert "unknown: [active] source has not read" in desk.run("host", "show", "a").out


def test_names_cannot_steer_a_terminal(desk: Desk) -> None:
    desk.server.replies = [hosts({"name": "a\x1b[2Jb", "rungs": ["\x07"], "reclaimable": {}})]
    out = desk.run("hosts").out
    assert "\x1b" not in out
    assert "\x07" not in out


EVIL = "a\x1b[2Jx"


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["vm", "show", "x"], {"domains": [{"name": EVIL, "uuid": VM}]}),
        (
            ["policy", "set", VM, "dedup=on"],
            {"policy": {}, "changes": [], "delivery": {"refused": True, "detail": EVIL}},
        ),
        (["reclaim", "create", VM], {"reclaim": {"id": "r", "state": "failed", "verdict": {"detail": EVIL}}}),
        (
            ["promises"],
            {"promises": {"hours": 2, "held": 1, "broken": [{"host": EVIL, "hours": 1, "held": 0, "lacked": 1}]}},
        ),
    ],
    ids=["a near name", "an agent's words", "a verdict", "a field's name"],
)
def test_no_word_of_a_host_steers_a_terminal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, words: list[str], body: dict[str, Any]
) -> None:
    monkeypatch.setattr("memhint.cli.fleet.reclaims._STEP", 0.0)
    desk.server.answer = lambda asked: Reply(body=body)
    result = desk.run(*words)
    assert "a\N{REPLACEMENT CHARACTER}[2Jx" in result.out + result.err
    assert "\x1b" not in result.out + result.err


def test_columns_are_chosen_by_either_name(desk: Desk) -> None:
    desk.server.replies = [hosts({"name": "a", "ksm_saving": 3 * MIB})] * 2
    assert desk.run("hosts", "-f", "value", "-c", "ksm_saving").out == f"{3 * MIB}\n"
    assert "|         3 |" in desk.run("hosts", "-c", "KSM saves").out


def test_a_name_in_full_is_no_abbreviation(desk: Desk) -> None:
    desk.server.replies = [Reply(404, problem(404))]
    assert desk.run("reclaim", "show", "x").code == 3
    # a VM "sh" on this host, for which there is no store here: not `reclaim show`
    result = desk.run("reclaim", "sh")
    assert len(desk.server.asked) == 1
    assert "store" in result.err


@pytest.mark.parametrize(
    ("state", "code"), [("done", 0), ("failed", 1), ("refused", 5), ("expired", 4)], ids=lambda value: str(value)
)
def test_a_request_is_followed_to_its_end(desk: Desk, monkeypatch: pytest.MonkeyPatch, state: str, code: int) -> None:
    monkeypatch.setattr("memhint.cli.fleet.reclaims._STEP", 0.0)
    queued = {"id": "r1", "state": "queued", "timeout": 60.0}
    ended = {**queued, "state": state, "verdict": {"answer": "x", "reason": "none", "detail": "so it went"}}
    replies = [queued, queued, {**queued, "state": "running"}, ended]
    desk.server.replies = [Reply(200, {"reclaim": one}) for one in replies]
    result = desk.run("reclaim", "create", VM, "-f", "value", "-c", "state")
    assert (result.code, result.out) == (code, f"{state}\n")
    assert (f"reclaim of {VM}: x: so it went" in result.err) == (code != 0)


@pytest.mark.parametrize("away", [Reply(hang_up=True), Reply(503, problem(503)), Reply(429, problem(429))])
def test_a_request_is_followed_on_when_the_api_was_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, away: Reply
) -> None:
    monkeypatch.setattr("memhint.cli.fleet.reclaims._STEP", 0.0)
    queued = {"id": "r1", "state": "queued", "timeout": 60.0}
    known = [Reply(200, {"reclaim": {**queued, "state": state}}) for state in ("running", "done")]
    desk.server.replies = [Reply(200, {"reclaim": queued}), *[away] * 6, known[0], *[away] * 3, known[1]]
    result = desk.run("reclaim", "create", VM, "-f", "value", "-c", "state")
    assert (result.code, result.out) == (0, "done\n")
    assert result.err.count("asking for request r1 again") == 2


@pytest.mark.parametrize(("status", "code"), [(503, 6), (403, 7)])
def test_a_request_that_cannot_be_followed_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, status: int, code: int
) -> None:
    monkeypatch.setattr("memhint.cli.fleet.reclaims._STEP", 0.0)
    monkeypatch.setattr("memhint.cli.fleet.reclaims.TIME_TO_LIVE", -1000.0)
    queued = Reply(200, {"reclaim": {"id": "r1", "state": "queued", "timeout": 60.0}})
    desk.server.replies = [queued, *[Reply(status, problem(status))] * 6]
    result = desk.run("reclaim", "create", VM)
    assert result.code == code
    assert "request r1 may go on: see memhint reclaim show r1" in result.err


def test_a_request_is_followed_until_it_holds(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memhint.cli.fleet.reclaims._STEP", 0.0)
    held = {"since": 0.0, "until": 600.0, "kept": 1, "used": 1, "again": 5 << 20, "rounds": 1, "stop": None}
    queued = {"id": "r1", "state": "queued", "timeout": 60.0, "hold": 600.0, "held": None}
    replies = [queued, {**queued, "state": "holding", "held": held}]
    desk.server.replies = [Reply(200, {"reclaim": one}) for one in replies]
    result = desk.run("reclaim", "create", VM, "--hold", "10m")
    assert result.code == 0
    assert "until 1970-01-01 00:10:00 UTC, 5 MiB reclaimed again" in result.out
    assert desk.server.asked[0].body["hold"] == 600
    assert desk.run("reclaim", "create", VM, "--hold", "soon").code == 2


CHANGES = [
    (["policy", "set", VM, "dedup=on"], f"policy show {VM}"),
    (["policy", "clear", VM], f"policy show {VM}"),
    (["reclaim", "create", VM], f"reclaim list --vm {VM}"),
    (["reclaim", "interrupt", "r1"], "reclaim show r1"),
]


@pytest.mark.parametrize(("words", "look"), CHANGES)
@pytest.mark.parametrize(
    "lost", [Reply(hang_up=True), Reply(504, b"<html>"), Reply(502, problem(502)), Reply(200, b"<html>")]
)
def test_a_change_without_an_answer_may_have_been_done(desk: Desk, words: list[str], look: str, lost: Reply) -> None:
    desk.server.replies = [lost]
    result = desk.run(*words)
    assert result.code == Exit.AWAY
    assert f"it may have been done all the same: see memhint {look} before asking again" in result.err
    assert len(desk.server.asked) == 1


@pytest.mark.parametrize(("words", "look"), CHANGES)
def test_who_interrupts_a_change_hears_that_it_may_have_been_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, words: list[str], look: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memhint.client.transport.Transport.send", interrupted)
    result = desk.run(*words)
    assert result.code == 130
    assert result.err.strip() == f"it may have been done all the same: see memhint {look} before asking again"


def test_what_is_refused_or_tried_was_not_done(desk: Desk) -> None:
    desk.server.replies = [Reply(403, problem(403)), *[Reply(hang_up=True)] * 3]
    for words in (["policy", "set", VM, "dedup=on"], ["policy", "set", VM, "dedup=on", "--dry-run"]):
        assert "may have been done" not in desk.run(*words).err
    assert desk.server.replies == []


def test_a_wish_that_has_not_arrived_is_told(desk: Desk) -> None:
    change = {"key": "dedup", "before": {"value": "off", "origin": "default"}, "after": {"value": "on", "origin": "x"}}
    body = {"policy": {}, "changes": [change], "delivery": {"taken": False, "detail": "its agent is away"}}
    desk.server.replies = [Reply(body=body)]
    assert "Stored, and not at its host yet: its agent is away." in desk.run("policy", "set", VM, "dedup=on").out


@pytest.mark.parametrize("words", [["set", VM, "dedup=on"], ["clear", VM]])
def test_a_wish_that_its_host_refuses_fails_each_time(desk: Desk, words: list[str]) -> None:
    change = {"key": "dedup", "before": {"value": "off", "origin": "default"}, "after": {"value": "on", "origin": "x"}}
    delivery = {"taken": False, "detail": "host-a does not take it: no such key", "refused": True}
    for changes in ([change], []):
        body = {"policy": {}, "changes": changes, "delivery": delivery}
        for how in ([], ["-f", "json"]):
            desk.server.replies = [Reply(body=body)]
            result = desk.run("policy", *words, *how)
            assert result.code == Exit.REFUSED
            assert "stored, and not what holds: host-a does not take it: no such key" in result.err
            assert "it holds already" not in result.out


def test_a_wish_that_has_not_arrived_is_told_again(desk: Desk) -> None:
    body = {"policy": {}, "changes": [], "delivery": {"taken": False, "detail": "its agent is away", "refused": False}}
    desk.server.replies = [Reply(body=body)]
    result = desk.run("policy", "set", VM, "dedup=on")
    assert result.code == 0
    assert "Stored, and not at its host yet: its agent is away." in result.out
    assert "it holds already" not in result.out


@pytest.mark.parametrize(("refused", "what"), [(False, "not at its host yet"), (True, "refused")])
@pytest.mark.parametrize("words", [["create", VM, "--no-wait"], ["interrupt", "r"]])
def test_a_request_of_which_its_host_does_not_know_is_told(
    desk: Desk, words: list[str], refused: bool, what: str
) -> None:
    delivery = {"taken": False, "detail": "its agent is away", "refused": refused}
    desk.server.replies = [Reply(body={"reclaim": {"id": "r", "state": "queued"}, "delivery": delivery})]
    result = desk.run("reclaim", *words)
    assert result.code == 0
    assert f"request r: stored, and {what}: its agent is away" in result.err


@pytest.mark.parametrize("words", [["dedup"], ["=on"], ["dedup=on", "dedup=off"]])
def test_what_is_no_wish_is_not_sent(desk: Desk, words: list[str]) -> None:
    assert desk.run("policy", "set", VM, *words).code == 2
    assert desk.server.asked == []


def test_a_token_is_never_taken_from_the_command_line(desk: Desk) -> None:
    assert desk.run("hosts", "--token", "s3cret").code == 2
    assert desk.server.asked == []


def test_the_order_is_the_servers() -> None:
    items = [{"name": "a", "psi": None}, {"name": "b", "psi": 1.0}, {"name": "c", "psi": 3.0}]
    assert [one["name"] for one in arranged(items, "psi:desc", None)] == ["c", "b", "a"]
    assert [one["name"] for one in arranged(items, "psi", 2)] == ["b", "c"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_drawn_in_place_and_holds_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "4")
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    screen = Screen(out)
    screen.show("1\n2\n3\n", "end.")
    assert out.getvalue() == "\x1b[H1\x1b[K\n2\x1b[K\nend. 1 line does not fit: see --limit.\x1b[K\n\x1b[J"
    before = out.getvalue()
    screen.show("1\n2\n3\n", "end.")
    assert out.getvalue() == before


@pytest.mark.parametrize("line", ["x" * 50, "\u6c34" * 50, "\u6c34x" * 25], ids=["narrow", "wide", "both"])
def test_no_line_is_longer_than_the_terminal_is_wide(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setenv("COLUMNS", "20")
    out = Terminal()
    Screen(out).show(f"{line}\n" * 9, "the end of it")
    shown = out.getvalue().removeprefix("\x1b[H").removesuffix("\x1b[J").replace("\x1b[K", "").splitlines()
    assert len(shown) == 5
    assert all(17 < len(one) + one.count("\u6c34") < 20 for one in shown)
    assert shown[-1].startswith("the end of it")


def test_who_is_shown_less_than_all_columns_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    Screen(out).show("x" * 70, "end.")
    assert "end. Cut at the right: see -c." in out.getvalue()


def test_elsewhere_tables_follow_each_other() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.show("1\n", "end.")
    screen.show("2\n", "end.")
    assert out.getvalue() == "1\nend.\n\n2\nend.\n\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["place", "--memory", "4"], "'4' is 4 bytes, which is no VM: write 4GiB"),
        (["hosts", "--tier", "5"], "'5' is 5 bytes, which is no tier: write 512GiB"),
        (["history", "--since", "1h", "--until", "2h"], "--since has to be before --until"),
        (["host", "history", "a", "--since", "2999-01-01"], "--since has to be before --until"),
    ],
)
def test_what_nobody_can_mean_is_wrong_usage(desk: Desk, words: list[str], said: str) -> None:
    result = desk.run(*words)
    assert (result.code, result.out) == (Exit.USAGE, "")
    assert said in result.err


NOWHERE = Reply(404, problem(404, "memhint.host.not_found", "no agent of this name has reported"))


@pytest.mark.parametrize(("command", "member"), [("vms", "domains"), ("events", "events"), ("refusals", "refusals")])
def test_a_list_of_a_host_that_there_is_not_says_so(desk: Desk, command: str, member: str) -> None:
    empty = Reply(body={member: [], "changed": "1"})
    desk.server.replies = [empty, NOWHERE]
    result = desk.run(command, "--host", "nope")
    assert (result.code, result.out) == (Exit.NO_DOMAIN, "")
    assert result.err.startswith("no agent of this name has reported (")
    assert result.err.endswith("; see: memhint hosts\n")
    for known in (Reply(body={"host": {"name": "nope"}}), Reply(403, problem(403))):
        desk.server.replies = [empty, known]
        assert desk.run(command, "--host", "nope").out.endswith("There are none.\n")
    desk.server.replies = [empty]
    assert desk.run(command).code == Exit.DONE


def test_a_placement_on_a_host_that_there_is_not_says_so(desk: Desk) -> None:
    refusal = {"reason": "unknown", "detail": "no agent of this name has reported"}
    host = {"name": "nope", "placed": 0, "slots": 0, "nominal_slots": 0, "headroom": None, "refusal": refusal}
    desk.server.replies = [Reply(body={"plan": {"placed": 0, "nominal": 0, "hosts": [host]}})]
    result = desk.run("place", "--memory", "1GiB", "--host", "nope")
    assert result.code == Exit.NO_DOMAIN
    assert result.err == "no agent has reported of nope; see: memhint hosts\n"


@pytest.mark.parametrize("words", [["host", "show", ""], ["host", "history", " "], ["vms", "--host", ""]])
def test_an_empty_name_of_a_host_is_wrong_usage(desk: Desk, words: list[str]) -> None:
    result = desk.run(*words)
    assert (result.code, desk.server.asked) == (Exit.USAGE, [])
    assert "it is empty: say the name of a host" in result.err


def test_an_address_with_the_version_in_it_says_to_leave_it_out(desk: Desk) -> None:
    for end in ("/v1", "/v1/"):
        result = desk.run("--api", desk.server.url + end, "hosts")
        assert (result.code, desk.server.asked) == (Exit.USAGE, [])
        assert result.err.endswith("names a part of the API: leave /v1 out\n")
