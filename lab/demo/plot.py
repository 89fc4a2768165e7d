"""The demo as a picture."""

from __future__ import annotations

from pathlib import Path

from lab.demo.scenario import Result, Settings
from memhint.objects.units import MIB


def plot(result: Result, settings: Settings, directory: Path) -> list[Path]:
    """Draw resident memory against what was assigned, and the two counts of VMs; as PNG and as SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    samples = result.samples
    at = [one.at for one in samples]
    names = sorted({name for one in samples for name in one.resident}, key=lambda name: (len(name), name))
    figure, (memory, places) = plt.subplots(2, 1, figsize=(10, 7), sharex=True, height_ratios=(3, 1))
    colors = [plt.get_cmap("tab20")(number % 20) for number in range(len(names))]
    stacks = [[one.resident.get(name, 0) / MIB for one in samples] for name in names]
    memory.stackplot(at, stacks, labels=names, alpha=0.85, colors=colors)
    memory.plot(at, [one.assigned / MIB for one in samples], color="black", label="assigned to VMs")
    memory.axhline(settings.budget / MIB, color="red", linestyle="--", label="the host's memory")
    memory.set_ylabel("MiB")
    memory.set_title("Memory of the VMs as the host sees it")
    memory.legend(loc="upper left", fontsize=8, ncols=3)
    for label, color, counts in (
        ("measured: running and promised", "green", [one.measured for one in samples]),
        ("running", "black", [len(one.resident) for one in samples]),
        ("nominal", "red", [one.nominal for one in samples]),
    ):
        places.step(at, counts, where="post", color=color, label=label)
    places.set_ylabel("VMs")
    places.yaxis.set_major_locator(MaxNLocator(integer=True))
    places.set_xlabel("seconds")
    places.set_ylim(bottom=0)
    places.legend(loc="upper left", fontsize=8, ncols=3)
    figure.tight_layout()
    written = []
    for suffix in ("png", "svg"):
        path = directory / f"demo.{suffix}"
        figure.savefig(path)
        written.append(path)
    plt.close(figure)
    return written
