"""The lever with what is shipped, on memory that was split, by the kernel at hand: what it reaches for which CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memhint.agent.settings import planner_settings
from memhint.conf.load import load
from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError
from memhint.kernel.huge_blocks import GuestBlocks
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import deep_memory
from memhint.kernel.thp import HUGE_PAGE, read_thp
from memhint.levers.thp import ThpLever, settings_of
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer
from memhint.planner.thp import CollapseSettings
from tests.unit import builders
from tests.unit.guest_memory import guest_memory

SIZE = 256 * MIB


@pytest.fixture
def guest() -> Iterator[int]:
    # It was in huge pages, each page of which was then taken and touched again.
    with guest_memory(SIZE + HUGE_PAGE) as pid:
        yield pid


class Clock:
    """Seconds of processor time that this thread took, and those that it was told to sleep: no other work counts."""

    def __init__(self) -> None:
        self._began = time.thread_time()
        self.slept = 0.0

    def cpu(self) -> float:
        return time.thread_time() - self._began

    def now(self) -> float:
        return self.cpu() + self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def test_coverage_is_back_within_a_minute_for_a_fifth_of_a_core(guest: int, tmp_path: Path) -> None:
    file = tmp_path / "memhint.conf"
    file.write_text("")
    root, clock, conf = KernelRoot(), Clock(), load([str(file)])
    try:
        memory = process_memory(root, guest)
        GuestBlocks(root, memory.instance).close()
        if read_thp(root).enabled == "never":
            pytest.skip("transparent huge pages are off on this machine")
    except (InterfaceMissing, KernelInterfaceError) as error:
        pytest.skip(f"this kernel lets nobody collapse another process's memory here: {error}")
    lever = ThpLever(
        root,
        lambda instance: GuestBlocks(root, instance),
        lambda: 8 * GIB,
        settings_of(conf),
        clock.now,
        clock.cpu,
        clock.sleep,
    )
    lever._trouble = lambda domain: None  # what else this machine does is not asked for
    vm = builders.domain_observation(process=builders.process(pid=guest, start_ticks=memory.start_ticks, ksm_merging=0))
    policy = effective({Origin.OPERATOR: {"thp": "on"}})
    most = planner_settings(conf).of(CollapseSettings).most
    verdict = lever.pull(vm, policy, most, dry_run=False, stop=lambda: False)
    if verdict.answer is not Answer.APPLIED:
        pytest.skip(f"this machine has no huge pages to give: {verdict}")
    huge = deep_memory(root, guest, 0.0).anon_huge
    if huge < SIZE // 4:
        pytest.skip(f"this machine has few huge pages to give: {verdict}")
    made = huge / clock.now() * 60
    text = f"{huge // MIB} MiB in {clock.now():.2f} s, {clock.cpu():.2f} of them CPU: {made / MIB:.0f} MiB a minute"
    print(text)
    assert huge >= 0.9 * SIZE, verdict
    assert clock.cpu() <= 0.25 * clock.now()  # a fifth, and what the last blocks took
    assert clock.now() < 60
