from __future__ import annotations

from memhint.bus.allowance import Allowance


def test_a_sender_of_too_much_is_not_heard_until_it_has_paid_and_others_are() -> None:
    allowance = Allowance(rate=10.0, burst=20.0)
    taken = 0
    for _ in range(100):
        if allowance.open("host-a", 0.0):
            allowance.charge("host-a", 0)
            taken += 1
    assert taken == 20
    assert allowance.open("host-b", 0.0)
    assert not allowance.open("host-a", 0.05)
    assert allowance.open("host-a", 0.2)


def test_what_is_long_costs_more_and_may_be_owed() -> None:
    allowance = Allowance(rate=10.0, burst=20.0)
    assert allowance.open("host-a", 0.0)
    allowance.charge("host-a", 4 * 2**20)  # 65: 45 are owed
    assert not allowance.open("host-a", 4.5)
    assert allowance.open("host-a", 4.7)


def test_a_debt_is_not_forgotten_with_those_who_have_gone() -> None:
    allowance = Allowance(rate=10.0, burst=20.0)
    assert allowance.open("host-a", 0.0)
    allowance.charge("host-a", 16 * 2**20)
    for second in range(1, 20):
        assert allowance.open(f"host-{second}", float(second))
    assert not allowance.open("host-a", 20.0)


def test_what_waited_while_nobody_read_costs_its_size_alone() -> None:
    allowance = Allowance(rate=10.0, burst=20.0)
    for _ in range(3000):
        assert allowance.open("host-a", 0.0)
        allowance.charge("host-a", 256, waited=True)
    allowance.charge("host-a", 4 * 2**20, waited=True)
    assert not allowance.open("host-a", 0.0)
