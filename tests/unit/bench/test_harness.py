"""Results that are kept, refused, and made into the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.__main__ import ROOT, kept, main
from bench.counted_guest import GuestFailed
from bench.figures import Verdict, figure
from bench.harness import document, plot, result
from bench.harness.bench import Bench
from bench.harness.precondition import ANYWAY, PreconditionFailed, ksm_is_off, no_other_guests
from bench.harness.registry import NAMES, load
from bench.harness.result import BYTES, Arm, Column, Curve, Plot, Result, Table
from bench.harness.scale import Scale
from lab.errors import BootError
from memhint.objects.units import MIB

COLUMNS = (Column("guests", "guests", "", 0), Column("swap", "in swap", BYTES))
ARMS = (
    Arm("none", {"guests": figure([3, 3]), "swap": figure([MIB, 3 * MIB, 2 * MIB])}, "2 guests"),
    Arm("all", {"guests": figure([5]), "swap": None}),
)
RESULT = Result(
    "density",
    Scale.SHORT,
    {"host": "x86_64", "load": 0.123},
    (Table("How many", COLUMNS, ARMS, "seed"),),
    (Verdict("guests, more", None, 4, 5.0), Verdict("percent", 1.0, None, 3.0)),
    (Plot("bars", "guests", column="guests"), Plot("lines", "MiB", "s", (Curve("a", ((0.0, 1.0), (1.0, 2.0))),))),
    ("A note.",),
)
BENCH = Bench("density", "How many fit", "What it is.", lambda scale, say: RESULT)


def test_a_result_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    result.write(RESULT, tmp_path / "deep" / "density.json")
    found = result.read(tmp_path / "deep" / "density.json")
    assert found.as_json() == RESULT.as_json()
    assert not found.met


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "density.json").write_text('{"name": "density"}')
    with pytest.raises(ValueError, match="is not a result"):
        result.read(tmp_path / "density.json")


def test_a_table_shows_median_range_gaps_and_what_was_published() -> None:
    assert RESULT.tables[0].rows() == [
        ["", "guests", "in swap, MiB", "seed"],
        ["none", "3", "2.0 (1.0 to 3.0)", "2 guests"],
        ["all", "5", "–", ""],
    ]


def test_the_page_tells_all_of_it() -> None:
    page = document.document([(BENCH, RESULT)])
    assert "| [density](#how-many-fit) | guests, more | at least 4 | 5 | met |" in page
    assert "- **missed**: percent: 3, target at most 1" in page
    assert "| none | 3 | 2.0 (1.0 to 3.0) | 2 guests |" in page
    assert "![lines](plots/density-2.png)" in page
    assert "load: 0.12" in page
    assert "Not measured yet." in document.document([(BENCH, None)])


def test_pictures_of_bars_and_of_lines(tmp_path: Path) -> None:
    written = plot.draw(RESULT, tmp_path)
    assert [path.name for path in written] == ["density.png", "density-2.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_the_page_is_that_of_the_results() -> None:
    """`make measurements` writes it anew."""
    assert (ROOT / "doc" / "measurements.md").read_text() == document.document(kept())


def test_every_bench_is_called_what_it_is() -> None:
    assert [load(name).name for name in NAMES] == list(NAMES)
    assert len({load(name).title for name in NAMES}) == len(NAMES)


def test_an_unknown_bench_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nonsense"])
    assert ended.value.code == 2
    assert "no bench nonsense: there are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BootError("no login prompt"), "failed: no login prompt"),
        (GuestFailed("no kernel"), "failed: no kernel"),
        (PreconditionFailed("no swap"), "was refused: no swap"),
    ],
)
def test_a_bench_that_fails_does_not_end_the_others(
    error: Exception,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measure(scale: Scale, say: Callable[[str], None]) -> Result:
        raise error

    benches = {"memhog": Bench("memhog", "Fails", "", measure), "density": BENCH}
    monkeypatch.setattr("bench.__main__.load", benches.__getitem__)
    assert main(["memhog", "density", "--results", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["density.json"]
    assert f"memhog {said}" in "".join(capsys.readouterr())


def test_other_guests_beside_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ANYWAY, raising=False)
    no_other_guests(["/usr/bin/python3 qemu-system-x86_64"])
    with pytest.raises(PreconditionFailed, match="end them"):
        no_other_guests(["/usr/bin/qemu-system-x86_64 -m 1"])
    with pytest.raises(PreconditionFailed, match="end them"):
        no_other_guests(["/usr/libexec/qemu-kvm -name guest=a"])
    with pytest.raises(PreconditionFailed) as refused:
        no_other_guests([f"/usr/bin/qemu-system-x86_64 {'-device x ' * 1000}"])
    assert len(str(refused.value)) < 250
    monkeypatch.setenv(ANYWAY, "1")
    no_other_guests(["/usr/bin/qemu-system-x86_64 -m 1"])


@pytest.mark.parametrize(("run", "off"), [("0\n", True), ("2\n", True), ("1\n", False), (None, False)])
def test_ksm_of_others_is_refused(run: str | None, off: bool, tmp_path: Path) -> None:
    if run is not None:
        (tmp_path / "sys/kernel/mm/ksm").mkdir(parents=True)
        (tmp_path / "sys/kernel/mm/ksm/run").write_text(run)
    if off:
        ksm_is_off(tmp_path)
        return
    with pytest.raises(PreconditionFailed, match="KSM"):
        ksm_is_off(tmp_path)
