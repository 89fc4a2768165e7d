from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.conf import ConfigError, load
from memhint.conf.aggregate import earned_max_ratio, max_ratio
from memhint.conf.opts import list_opts
from memhint.conf.policy import host_inputs
from memhint.levers.dedup import settings_of
from memhint.objects.policy import KEYS, Origin


def write(tmp_path: Path, text: str, name: str = "memhint.conf") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_without_a_file_the_shipped_defaults_hold() -> None:
    conf = load([])
    assert conf.period == 10.0
    assert conf.host.reserve_mib == 1024
    assert conf.policy.dedup == "off"
    assert conf.store.url == "sqlite:////var/lib/memhint/memhint.db"


def test_a_later_file_wins(tmp_path: Path) -> None:
    first = write(tmp_path, "[DEFAULT]\nperiod = 5\n[guest]\nin_flight = 2\n", "a.conf")
    second = write(tmp_path, "[DEFAULT]\nperiod = 1\n", "b.conf")
    conf = load([first, second])
    assert (conf.period, conf.guest.in_flight) == (1.0, 2)


def test_two_loads_share_nothing(tmp_path: Path) -> None:
    changed = load([write(tmp_path, "[DEFAULT]\nperiod = 1\n")])
    assert load([]).period == 10.0
    assert changed.period == 1.0


ALLOW = "allow_monitor_commands = true\n"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", False),
        (f"[virt]\n{ALLOW}", True),
        (f"[dedup]\n{ALLOW}", True),
        (f"[virt]\nallow_monitor_commands = false\n[dedup]\n{ALLOW}", False),
        (f"[dedup]\nallow_monitor_commands = false\n[virt]\n{ALLOW}", True),
    ],
)
def test_leave_to_use_the_monitor_is_taken_where_it_was_unless_it_is_said_where_it_is(
    tmp_path: Path, text: str, allowed: bool
) -> None:
    conf = load([write(tmp_path, text)])
    assert conf.virt.allow_monitor_commands is allowed
    assert settings_of(conf).allow_monitor_commands is allowed


def test_an_option_that_was_somewhere_else_is_held_to_its_values_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as found:
        load([write(tmp_path, "[dedup]\nallow_monitor_commands = perhaps\n")])
    assert "[dedup] allow_monitor_commands" in str(found.value)
    assert "true or false" in str(found.value)
    with pytest.raises(ConfigError):
        load([write(tmp_path, f"[recycler]\n{ALLOW}")])


def test_host_name_is_not_shadowed_by_the_group_host(tmp_path: Path) -> None:
    conf = load([write(tmp_path, "[DEFAULT]\nhost_name = a.example\n[host]\nreserve_mib = 5\n")])
    assert conf.host_name == "a.example"
    assert conf.host.reserve_mib == 5


def test_the_environment_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_DEFAULT__PERIOD", "1")
    assert load([]).period == 10.0


@pytest.mark.parametrize(
    ("text", "option", "accepted"),
    [
        ("[policy]\nclass = gold\n", "[policy] class", "one of guaranteed, burstable, best-effort"),
        ("[policy]\nmin_mb = -1\n", "[policy] min_mb", "a whole number from 0 to 16777216"),
        ("[policy]\nreporting_order = 11\n", "[policy] reporting_order", "a whole number from 0 to 10 or auto"),
        ("[aggregate_a]\nmin_mb = much\n", "[aggregate_a] min_mb", "a whole number from 0 to 16777216"),
        ("[aggregate_a]\nmax = 3\n", "[aggregate_a] max", "min_mb"),
        ("[host]\naggregates = Gold\n", "[host] aggregates", "^[a-z0-9_-]{1,64}$"),
        ("[DEFAULT]\nperiod = 0.1\n", "[DEFAULT] period", "a number from 0.2 to 3600"),
        ("[DEFAULT]\nperiod = fast\n", "[DEFAULT] period", "a number from 0.2 to 3600"),
        ("[DEFAULT]\nperiod =\n", "[DEFAULT] period", "a number from 0.2 to 3600"),
        ("[DEFAULT]\nperiod = nan\n", "[DEFAULT] period", "a number from 0.2 to 3600"),
        ("[DEFAULT]\ndebug = loud\n", "[DEFAULT] debug", "true or false"),
        ("[host]\nreserve_mib = 1.5\n", "[host] reserve_mib", "a whole number from 0 to 100000000"),
        ("[host]\nreserve_mib = 99999999999999\n", "[host] reserve_mib", "a whole number from 0 to 100000000"),
        ("[store]\nhistory_hours = 1e300\n", "[store] history_hours", "a number from 0.1 to 1e+12"),
        ("[dedup]\nestimate_interval = 1e300\n", "[dedup] estimate_interval", "a number from "),
        ("[host]\nmemory_cgroup = slice\n", "[host] memory_cgroup", "Absolute path"),
        ("[policy]\ndedup = maybe\n", "[policy] dedup", "one of on, off, auto"),
        ("[dedup]\nuse_zero_pages = perhaps\n", "[dedup] use_zero_pages", "true or false"),
        ("[dedup]\nadvisor = scan\n", "[dedup] advisor", "one of scan-time, adaptive, none"),
        ("[planner]\npsi_exot = 1\n", "[planner] psi_exot", "psi_exit"),
        ("[planer]\npsi_exit = 1\n", "[planer]", "planner"),
        ("[planner]\nperiod = 5\n", "[planner] period", "is not an option of this section: it is one of [DEFAULT]"),
        ("[api]\nlisten = 127.0.0.1:65536\n", "[api] listen", "Addresses and ports"),
        ("[metrics]\nlisten = 127.0.0.1:99999\n", "[metrics] listen", "Address and port"),
        ("nonsense\n", "line 1", "[section]"),
    ],
)
def test_a_mistake_names_file_option_and_what_is_accepted(
    tmp_path: Path, text: str, option: str, accepted: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load([path])
    assert caught.value.file == str(path)
    assert caught.value.option == option
    assert accepted in caught.value.accepted


def test_a_reference_to_no_option_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[virt\] uri: a \$ refers to another option, .* write \$\$"):
        load([write(tmp_path, "[virt]\nuri = $nowhere\n")])


@pytest.mark.parametrize(
    "text",
    [
        "[host]\nreserve_mib = $reserve_percent\nreserve_percent = $reserve_mib\n",
        "[DEFAULT]\nlog_dir = $log_file\nlog_file = $log_dir\n",
        "[DEFAULT]\nhost_name = $host_name\n",
    ],
)
def test_options_that_refer_to_each_other_are_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        load([write(tmp_path, text)])


def test_a_reference_is_checked_as_the_value_it_stands_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="period"):
        load([write(tmp_path, "[DEFAULT]\nperiod = $host_name\nhost_name = a\n")])


@pytest.mark.parametrize(
    "text",
    [
        "[store]\nurl = postgresql:/memhint:sesame@db/memhint\n",
        "[store]\nurl = $host_name:sesame\n",
        "[store]\nurl = postgresql://memhint:open$sesame@db/memhint\n",
        "[bus]\nurls = amqps://memhint:open sesame@mq/memhint\n",
        "[DEFAULT]\nperiod = ${store.url}\n[store]\nurl = postgresql://memhint:sesame@db/memhint\n",
    ],
)
def test_a_password_in_a_value_that_is_not_accepted_is_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load([write(tmp_path, text)])
    assert "sesame" not in str(caught.value)
    assert caught.value.option


def test_a_file_with_a_byte_order_mark_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="byte order mark"):
        load([write(tmp_path, "\N{ZERO WIDTH NO-BREAK SPACE}[DEFAULT]\nperiod = 10\n")])


def test_a_file_with_the_line_ends_of_windows_is_read(tmp_path: Path) -> None:
    assert load([write(tmp_path, "[DEFAULT]\r\nperiod = 7\r\n")]).period == 7


@pytest.mark.parametrize("port", [0, 8790, 9999, 59999, 60000, 65535])
def test_every_port_there_is_may_be_listened_on(tmp_path: Path, port: int) -> None:
    load([write(tmp_path, f"[api]\nlisten = [::1]:{port}, 127.0.0.1:{port}\n[metrics]\nlisten = host-a:{port}\n")])


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load([tmp_path / "none.conf"])


def test_logging_options_are_accepted_under_old_names_too(tmp_path: Path) -> None:
    conf = load([write(tmp_path, "[DEFAULT]\ndebug = true\nlogfile = /var/log/memhint.log\n")])
    assert conf.debug is True
    assert conf.log_file == "/var/log/memhint.log"


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("[planner]\npsi_exit = 10\n", "psi_exit"),
        ("[planner]\nswap_in_exit_mib = 5\n", "swap_in_exit_mib"),
        ("[planner]\navailable_enter_percent = 6\n", "available_enter_percent"),
        ("[guest]\ncall_timeout = 20\n", "call_timeout"),
        ("[guest]\nbackoff_base = 301\n", "backoff_base"),
        ("[guest]\ninterval = 61\n", "interval"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path: Path, text: str, pair: str) -> None:
    with pytest.raises(ConfigError, match=rf"{pair}.*use"):
        load([write(tmp_path, text)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ladder]\nalways = swap_out\n", "needs .active. source"),
        ("[ladder]\nalways = swap_out\n[active]\nsource = damon\ncpu_percent = 0\n", "needs .active. source"),
        (
            "[ladder]\nalways = swap_out\n[active]\nsource = referenced\nround = 60\n[swap_out]\ncold_after = 600\n",
            "cold_after.*no more than",
        ),
    ],
)
def test_what_rests_is_put_away_only_where_somebody_reads_it(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load([write(tmp_path, text)])
    assert load([write(tmp_path, "[ladder]\nalways = swap_out\n[active]\nsource = auto\n")]).ladder.always


def test_every_option_has_help_and_every_number_a_lower_bound() -> None:
    for group, options in list_opts():
        for option in options:
            assert option.help, (group, option.name)
            if hasattr(option.type, "min"):
                assert option.type.min is not None, (group, option.name)


def test_every_policy_key_but_names_has_a_default_on_the_host(tmp_path: Path) -> None:
    found = host_inputs(load([write(tmp_path, "[policy]\nguest_actions = allow\nmin_mb = 0512\n")]))
    said = found[Origin.DEFAULT]
    assert set(said) == set(KEYS) - {"project", "group"}
    assert (said["guest_actions"], said["min_mb"], said["dedup"]) == ("allow", "512", "off")
    assert all(KEYS[name].check(value) == value for name, value in said.items())
    assert found[Origin.AGGREGATE] == {}


def test_of_two_aggregates_the_one_that_is_named_first_holds(tmp_path: Path) -> None:
    text = (
        "[host]\naggregates = gold, rack-1\n"
        "[aggregate_rack-1]\nclass = best-effort\nmin_mb = 256\n[aggregate_gold]\nclass = guaranteed\n"
    )
    said = host_inputs(load([write(tmp_path, text)]))[Origin.AGGREGATE]
    assert said == {"class": "guaranteed", "min_mb": "256"}


def test_no_host_earns_more_than_its_aggregates_allow(tmp_path: Path) -> None:
    said = "[host]\nearned_max_ratio = 3\naggregates = gold, rack-1\n[aggregate_gold]\nmax_ratio = 1.8\n"
    bounded = load([write(tmp_path, said)])
    assert (max_ratio(bounded), earned_max_ratio(bounded)) == (1.5, 1.8)
    assert earned_max_ratio(load([write(tmp_path, "")])) == 0.0


def test_a_section_of_an_aggregate_that_the_host_is_not_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load([write(tmp_path, "[aggregate_gold]\nclass = guaranteed\n")])
    assert caught.value.option == "[aggregate_gold]"
    assert "aggregates" in caught.value.accepted
    load([write(tmp_path, "[aggregate_gold]\n# class = guaranteed\n")])  # says nothing, as in the sample


_WORDS = st.sampled_from(
    ["[DEFAULT]", "[guest]", "period", "in_flight", "debug", "=", ":", "3", "$period", "true", "\n", " ", "\t", "#"]
)


@settings(max_examples=60, deadline=None)
@given(text=st.lists(_WORDS | st.text(max_size=3), max_size=12).map("".join))
def test_any_text_loads_or_is_a_config_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("conf") / "memhint.conf"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ConfigError):
        assert load([path]).period >= 0.2
