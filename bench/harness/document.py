"""doc/measurements.md, made of the results that are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.figures import Verdict
from bench.harness import plot
from bench.harness.bench import Bench
from bench.harness.result import Result, Table

_HEAD = """\
# Measurements

`make bench` measures this page again at the short scale, `make bench NAME=density SCALE=full` one bench as it may stand
here: the last line of each says its scale. It is made of `bench/results/*.json`
by `make measurements` and is not edited by hand. What tests, demos and other commands measure, the levers, a storm and
the planner among it, is in [measured-by-tests.md](measured-by-tests.md).

Read ratios, not seconds: only what ran within one run is compared. Guests are emulated where a machine has no KVM, so
what takes a guest's CPU is slow and what the host does is not; the published figures beside ours are of other machines,
with KVM. A figure is a median, with the range of its runs in brackets where there is one. Each bench refuses to report
when what it stands on does not hold: no swap where swap is counted, a budget that is not enforced, other guests beside.
"""


def document(found: Iterable[tuple[Bench, Result | None]], plots: str = "plots") -> str:
    """The page. `plots` is where the pictures are, as seen from it."""
    known = list(found)
    parts = [_HEAD, _summary(known)]
    for bench, result in known:
        parts.append(f"## {bench.title}\n\n    make bench NAME={bench.name}\n\n{bench.about.strip()}")
        parts.append("Not measured yet." if result is None else _told(result, plots))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def write(found: Iterable[tuple[Bench, Result | None]], directory: Path) -> None:
    """Write the page and its pictures into a directory of documentation."""
    known = list(found)
    for _, result in known:
        if result is not None:
            plot.draw(result, directory / "plots")
    (directory / "measurements.md").write_text(document(known))


def _summary(known: Sequence[tuple[Bench, Result | None]]) -> str:
    rows = [
        [
            f"[{bench.name}](#{_anchor(bench.title)})",
            verdict.what,
            _bound(verdict),
            _number(verdict.measured),
            _met(verdict),
        ]
        for bench, result in known
        if result is not None
        for verdict in result.targets
    ]
    table = "## Targets\n\n" + _markdown([["bench", "what", "target", "measured", ""], *rows])
    missing = ", ".join(f"[{bench.name}](#{_anchor(bench.title)})" for bench, result in known if result is None)
    return f"{table}\n\nNot in this table, for they were not measured yet: {missing}." if missing else table


def _told(result: Result, plots: str) -> str:
    parts = [f"**{table.title}**\n\n{_markdown(_escaped(table))}" for table in result.tables]
    if result.targets:
        parts.append(
            "\n".join(
                f"- {_met(one)}: {one.what}: {_number(one.measured)}, target {_bound(one)}" for one in result.targets
            )
        )
    parts += [f"![{one.title}]({plots}/{plot.name_of(result.name, at)})" for at, one in enumerate(result.plots)]
    if result.notes:
        parts.append("\n".join(f"- {note}" for note in result.notes))
    around = "; ".join(f"{name.replace('_', ' ')}: {_plain(value)}" for name, value in result.environment.items())
    parts.append(f"Scale {result.scale.value}. {around}.")
    return "\n\n".join(parts)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(one)}" for name, one in value.items())
    return str(value)


def _escaped(table: Table) -> list[list[str]]:
    return [[cell.replace("|", "\\|") for cell in row] for row in table.rows()]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    return "\n".join(
        ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rest)]
    )


def _bound(verdict: Verdict) -> str:
    return f"at most {verdict.at_most:g}" if verdict.at_most is not None else f"at least {verdict.at_least:g}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _met(verdict: Verdict) -> str:
    return "met" if verdict.met else "**missed**"


def _anchor(title: str) -> str:
    kept = "".join(one for one in title.lower() if one.isalnum() or one in " -_")
    return kept.replace(" ", "-")
