"""`memhint simulate`: tables and JSON of a small fleet, and one line for each thing that is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from memhint.cli.simulate import Simulate
from tests.unit.cli.conftest import Bench

SMALL = ("simulate", "--hosts", "2", "--days", "0.3", "--step", "900", "--processes", "1")


def test_a_table_has_a_row_for_each_policy_and_the_first_is_the_measure(bench: Bench) -> None:
    result = bench.run(*SMALL, "--policy", "nominal", "--policy", "peak:24")
    assert (result.code, result.err) == (0, "")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.out.splitlines() if "|" in line]
    assert [row[0] for row in rows] == ["Policy", "nominal", "peak:24"]
    column = {name: place for place, name in enumerate(rows[0])}
    assert rows[1][column["Ratio x"]] == rows[1][column["VMs x"]] == "1.00"
    assert rows[0][-3:] == ["VMs", "Peak", "VMs x"]  # a count flatters who refuses large VMs: it stands last
    assert rows[1][column["Of oracle %"]] == "-"  # nobody asked for the oracle
    assert result.out.startswith("diurnal: ")


def test_json_has_bytes_and_shares(bench: Bench) -> None:
    result = bench.run(*SMALL, "--policy", "nominal", "--policy", "quantile", "--json")
    nominal, quantile = json.loads(result.out)
    assert (nominal["policy"], nominal["hosts"], nominal["steps"], nominal["step"]) == ("nominal", 2, 29, 900.0)
    assert 0.5 < nominal["ratio_mean"] <= 1.0
    assert nominal["violation_share"] == 0.0
    assert set(quantile["bounds"]) == {"model", "now", "back", "ratio", "rate", "pressure"}


def test_the_fewest_hosts_of_each_policy_are_found_and_compared_with_the_bound(bench: Bench) -> None:
    words = (*SMALL, "--needed", "--policy", "nominal", "--policy", "peak:24", "--policy", "oracle")
    nominal, peak, oracle = json.loads(bench.run(*words, "--json").out)
    assert nominal["hosts"] > peak["hosts"] > oracle["hosts"]
    assert (nominal["gain"], oracle["gain"]) == (1.0, nominal["hosts"] / oracle["hosts"])
    assert (nominal["oracle_share"], oracle["oracle_share"]) == (0.0, 1.0)
    assert peak["oracle_share"] == (peak["gain"] - 1.0) / (oracle["gain"] - 1.0)
    assert min(one["placed_share"] for one in (nominal, peak, oracle)) >= 0.98
    shown = bench.run(*words).out
    assert "as many hosts as it takes" in shown
    assert [cell.strip() for cell in shown.splitlines()[2].split("|")[2:5]] == ["Hosts", "Hosts x", "Placed %"]


def test_several_seeds_have_their_mean_and_the_worst_of_each_figure(bench: Bench) -> None:
    words = (*SMALL, "--needed", "--seed", "5", "--policy", "nominal", "--policy", "peak:24")
    single = [json.loads(bench.run(*words[:-5], str(seed), *words[-4:], "--json").out) for seed in (5, 6, 7)]
    together = json.loads(bench.run(*words, "--seeds", "3", "--json").out)
    assert [{**one, "seconds": 0} for one in together] == [{**one, "seconds": 0} for run in single for one in run]
    assert [one["seed"] for one in together] == [5, 5, 6, 6, 7, 7]
    shown = bench.run(*words, "--seeds", "3").out
    assert shown.startswith("diurnal: seeds 5 to 7, ")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines() if "|" in line]
    assert [row[0] for row in rows] == ["Policy", "nominal, mean", "nominal, worst", "peak:24, mean", "peak:24, worst"]
    peaks = [one for one in together if one["policy"] == "peak:24"]
    hosts, gains = ([one[name] for one in peaks] for name in ("hosts", "gain"))
    assert rows[3][1:3] == [f"{sum(hosts) / 3:.1f}".removesuffix(".0"), f"{sum(gains) / 3:.2f}"]
    assert rows[4][1:3] == [str(max(hosts)), f"{min(gains):.2f}"]


def test_a_trace_is_simulated_and_drawn(bench: Bench, tmp_path: Path) -> None:
    trace, drawn = tmp_path / "use.csv", tmp_path / "out.svg"
    rows = [f"vm-{vm},{time},8192,{1000 + vm}" for vm in range(64) for time in range(0, 7200, 600)]
    trace.write_text("\n".join(["vm,time_s,assigned_mib,demand_mib", *rows]))
    result = bench.run(
        "simulate", "--trace", str(trace), "--hosts", "1", "--policy", "nominal", "--plot", str(drawn), "--json"
    )
    assert (result.code, result.err) == (0, "")
    (nominal,) = json.loads(result.out)
    assert (nominal["asked"], nominal["steps"], nominal["fleet"]) == (64, 23, "use.csv")
    assert nominal["placed_peak"] == 29  # (256 − 12.8 − 4) GiB of 8 GiB each
    assert "<svg" in drawn.read_text()


def test_a_trace_of_the_archive_is_cut_where_it_must_be_and_worn_by_vms_that_come_and_go(
    bench: Bench, tmp_path: Path
) -> None:
    from tests.unit.sim.test_trace import bitbrains

    day = [(300 * step, 4 << 20, 1 << (20 + step % 3)) for step in range(288)]
    bitbrains(tmp_path / "1.csv", *day)
    bitbrains(tmp_path / "2.csv", *day[:-1], (300 * 287, 4 << 20, 5 << 20))
    words = ("simulate", "--trace", str(tmp_path), "--overlay", "--hosts", "1", "--policy", "nominal", "--json")
    plain = bench.run(*words)
    assert plain.err == f"{tmp_path}: 1 row of 1 VM uses more than the VM has: cut to that\n"
    sticky = bench.run(*words, "--sticky", "--offered", "4")
    assert json.loads(plain.out)[0]["steps"] == 288
    assert json.loads(sticky.out)[0]["fleet"] == f"{tmp_path.name}, overlaid, sticky"
    assert json.loads(sticky.out)[0]["asked"] > 1.5 * json.loads(plain.out)[0]["asked"]


def test_growth_is_learnt_from_another_month_or_another_seed(bench: Bench, tmp_path: Path) -> None:
    from tests.unit.sim.test_trace import bitbrains

    for month, used in (("july", 1 << 20), ("august", (1 << 20) + 9)):
        (tmp_path / month).mkdir()
        for vm in range(3):
            rows = [(900 * step, 4 << 20, used + vm) for step in range(96)]
            bitbrains(tmp_path / month / f"{vm}.csv", *rows)
    trace = ("simulate", "--trace", str(tmp_path / "august"), "--overlay", "--hosts", "1", "--step", "900")
    words = (
        "--policy",
        "nominal",
        "--policy",
        "growth",
        "--max-ratio",
        "4",
        "--swap",
        "999",
        "--offered",
        "4",
        "--json",
    )
    nominal, growth = json.loads(bench.run(*trace, *words, "--learn", str(tmp_path / "july")).out)
    assert growth["assigned_mean"] > 1.2 * nominal["assigned_mean"]
    unlearnt = bench.run(*trace, *words)
    assert (unlearnt.code, "needs a history" in unlearnt.err) == (2, True)
    (generated,) = json.loads(bench.run(*SMALL, "--policy", "growth", "--json").out)
    assert generated["admitted"] > 0


def test_what_is_kept_for_storms_is_a_choice(bench: Bench) -> None:
    words = (*SMALL, "--max-ratio", "4", "--swap", "1000", "--offered", "4", "--policy", "peak", "--json")
    (none,) = json.loads(bench.run(*words, "--storm-percent", "0").out)
    (all_of_it,) = json.loads(bench.run(*words, "--storm-percent", "100").out)
    assert none["assigned_mean"] > 1.1 * all_of_it["assigned_mean"]


def test_the_seeds_arm_is_a_choice(bench: Bench) -> None:
    words = ("simulate", "--generate", "seed", "--hosts", "1", "--days", "0.1", "--policy", "nominal", "--json")
    (kept,) = json.loads(bench.run(*words, "--arm", "none").out)
    (returned,) = json.loads(bench.run(*words).out)
    assert (kept["asked"], returned["asked"], returned["step"]) == (67, 516, 30.0)
    assert kept["placed_peak"] == returned["placed_peak"] == 59


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--policy", "best"], "--policy: 'best' is no policy"),
        (["--arm", "ksm"], "--arm is of --generate seed"),
        (["--trace", "nowhere.csv"], "nowhere.csv: No such file"),
        (["--trace", "x.csv", "--days", "3"], "--days: a trace has its own length"),
        (["--overlay"], "--overlay is of --trace"),
        (["--learn", "x.csv"], "--learn is of --trace with --overlay"),
        (["--trace", "x.csv", "--learn", "x.csv"], "--learn is of --trace with --overlay"),
        (["--trace", "x.csv", "--arm", "ksm"], "--arm is of --generate seed"),
        (["--memory", "4"], "--memory must be above the 4 GiB"),
        (["--plot", "out.bmp"], "the name must end in .png, .svg, .pdf"),
        (["--plot", "out.svg", "--seeds", "2"], "--plot is of one seed: leave --seeds out"),
        (["--seeds", "0"], "0 is not at least 1"),
        (["--hosts", "0"], "0 is not at least 1"),
        (["--storm-percent", "101"], "101 is not from 0 to 100"),
        (["--step", "0"], "0 is not above 0"),
        (["--swap", "nan"], "nan is not a number from 0"),
        (["--days", "1e9"], "1e9 is not a number from 0 to below 1e9"),
        (["--hosts", "1e3"], "invalid whole number value: '1e3'"),
        (["--trace", "x.csv", "--generate", "storm"], "not allowed with argument"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(bench: Bench, words: list[str], what: str) -> None:
    result = bench.run("simulate", *words)
    assert result.code == 2
    assert what in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("missing", ["numpy", "pyarrow", "matplotlib"])
def test_without_the_extra_it_says_what_to_install(bench: Bench, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    result = bench.run(*SMALL)
    assert result.code == 1
    assert result.err == f"a simulation needs {missing}, which is not installed: pip install 'memhint[sim]'\n"


def test_help_has_examples_of_each_kind(bench: Bench) -> None:
    result = bench.run("simulate", "--help")
    assert result.code == 0
    assert Simulate.examples.splitlines()[1] in result.out


def test_a_seed_is_a_whole_number_from_0_on(bench: Bench) -> None:
    for seed in ("-1", "1.5", "x"):
        result = bench.run(*SMALL, f"--seed={seed}")
        assert (result.code, result.out) == (2, "")
        assert "argument --seed: " in result.err


def test_what_does_not_fit_into_memory_says_what_to_ask_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_words: object, **_more: object) -> None:
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr("memhint.sim.compare.compare", short)
    result = bench.run(*SMALL)
    assert (result.code, result.out) == (1, "")
    assert result.err == ("this takes more memory than there is: ask for fewer hosts, days, or a longer --step\n")
