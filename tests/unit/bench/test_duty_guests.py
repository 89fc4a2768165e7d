"""What is worked out of the cycles of single guests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import duty_guests
from bench.duty_guests import Spent, Turn, alone, rows
from bench.resident import Resident
from bench.rota import Cycle
from bench.suite.recycle import WITH
from memhint.objects.units import MIB

MEMORY = 512 * MIB
ONE = Spent("stock", 1_000_000_000, 2.0, 500, held=84 * MIB, free=452 * MIB, own=26 * MIB)


def test_what_is_held_of_what_is_free_is_what_the_guest_does_not_use() -> None:
    assert ONE.beyond(MEMORY) == 24 * MIB


def test_a_line_for_each_arm_has_the_medians_of_its_cycles() -> None:
    found = [ONE, replace(ONE, arm="mine", held=62 * MIB), replace(ONE, instructions=3_000_000_000), ONE]
    _, stock, mine = rows(found, MEMORY)
    assert stock == "stock | 1000 | 2.00 | 500 | 24.0 | 26.0"
    assert mine == "mine | 1000 | 2.00 | 500 | 2.0 | 26.0"


def test_nothing_that_holds_for_the_whole_machine_is_set_beside_others() -> None:
    settings = alone(WITH)
    assert "khugepaged" not in settings
    assert settings["policy"]["dedup"] == "off"
    assert settings["ladder"] == WITH["ladder"]


class Counting:
    """A guest that has executed a thousand instructions more at each look."""

    arm, memory, asked = "mine", MEMORY, 0

    def __init__(self) -> None:
        self.guest, self.looks = self, 0

    def now(self) -> tuple[int, float, int]:
        self.looks += 1
        return 1000 * self.looks, 0.5 * self.looks, 7 * self.looks

    def pid(self) -> int:
        return 1

    def duty(self, files: int, size: int, step_ms: int) -> None:
        self.asked = 0

    def duty_done(self) -> dict[str, bool]:
        self.asked += 1
        return {"running": self.asked < 2}

    def meminfo(self) -> dict[str, int]:
        return {"MemFree": 400 * MIB}


def test_a_cycle_counts_from_its_beginning_to_its_end_and_memory_after_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duty_guests, "resident_of", lambda pid, memory: Resident(120 * MIB, 0, MIB, 0))
    turn = Turn(Counting(), Cycle(10.0, 1, MIB, 0.001))
    assert turn.begin() is None
    assert turn.end() is None
    assert turn.rest() == Spent("mine", 1000, 0.5, 7, held=120 * MIB, free=400 * MIB, own=MIB)
