from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from memhint.backoff import Backoff
from memhint.guest.errors import GuestAgentAbsent, GuestConnectionLost, GuestError, GuestTimeout
from memhint.guest.poller import GuestPoller, Task, start_daemon
from memhint.guest.reading import GuestReading
from memhint.objects.gap import GapReason

WAIT_S = 30  # for threads; never reached unless the test fails


def tasks(*uuids: str) -> list[Task]:
    return [Task(uuid, 100) for uuid in uuids]


class World:
    """Time, guests and threads under the test's control: started work runs when told, hung guests cost 5 s."""

    def __init__(self, workers: int = 4) -> None:
        self.now = 1000.0
        self.started: list[Callable[[], None]] = []
        self.hung: set[str] = set()
        self.asked: list[str] = []
        self.poller = GuestPoller(self.read, workers=workers, clock=lambda: self.now, start=self.started.append)

    def read(self, task: Task) -> GuestReading:
        self.asked.append(task.uuid)
        if task.uuid in self.hung:
            self.now += 5
            raise GuestTimeout("no answer")
        return GuestReading(at=self.now)

    def run(self) -> None:
        while self.started:
            self.started.pop(0)()

    def ask(self, *uuids: str) -> frozenset[str]:
        taken = self.poller.submit(tasks(*uuids))
        self.run()
        return taken


def test_a_good_reading_is_the_newest_and_ages() -> None:
    world = World()
    world.ask("a")
    world.now += 7
    newest = world.poller.newest("a")
    assert newest.reading == GuestReading(at=1000.0)
    assert (newest.age_s, newest.gap, newest.failures) == (7.0, None, 0)


def test_a_guest_that_was_never_asked_is_pending() -> None:
    newest = World().poller.newest("a")
    assert newest.reading is None
    assert newest.gap is not None
    assert newest.gap.reason is GapReason.PENDING


def test_a_failure_keeps_the_last_good_reading_and_tells_the_gap() -> None:
    world = World()
    world.ask("a")
    world.hung.add("a")
    world.now += 10
    world.ask("a")
    newest = world.poller.newest("a")
    assert newest.reading == GuestReading(at=1000.0)
    assert newest.age_s == 15.0
    assert newest.gap is not None
    assert newest.gap.reason is GapReason.TIMEOUT
    assert newest.retry_in_s == 5.0


def test_a_success_clears_the_gap() -> None:
    world = World()
    world.hung.add("a")
    world.ask("a")
    world.hung.clear()
    world.now += 5
    world.ask("a")
    newest = world.poller.newest("a")
    assert (newest.gap, newest.failures, newest.retry_in_s) == (None, 0, 0.0)


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 0), (1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (8, 300), (10**6, 300)]
)
def test_the_pause_doubles_from_5_to_300_seconds(failures: int, pause: float) -> None:
    assert Backoff().pause_s(failures) == pause


def test_a_failing_guest_is_left_alone_longer_and_longer() -> None:
    world = World()
    world.hung.add("a")
    for pause in (5, 10, 20, 40, 80, 160, 300, 300):
        assert world.ask("a") == {"a"}
        world.now += pause - 0.001
        assert world.ask("a") == frozenset()
        world.now += 0.001
    assert len(world.asked) == 8


def test_a_success_starts_the_back_off_anew() -> None:
    world = World()
    world.hung.add("a")
    for pause in (5, 10, 20):
        world.ask("a")
        world.now += pause
    world.hung.clear()
    world.ask("a")
    world.hung.add("a")
    world.ask("a")
    assert world.poller.newest("a").retry_in_s == 5.0


def test_a_woken_guest_is_asked_at_once_and_backs_off_anew() -> None:
    world = World()
    world.hung.add("a")
    for pause in (5, 10, 0):
        world.ask("a")
        world.now += pause
    assert world.ask("a") == frozenset()
    world.poller.wake("a")
    assert world.ask("a") == {"a"}
    assert world.poller.newest("a").retry_in_s == 5.0


def test_waking_a_stranger_does_nothing() -> None:
    world = World()
    world.poller.wake("nobody")
    assert world.poller.newest("nobody").gap is not None


def test_submitting_runs_nothing_itself() -> None:
    world = World()
    assert world.poller.submit(tasks("a", "b")) == {"a", "b"}
    assert world.asked == []


def test_a_guest_in_flight_is_skipped_and_a_queued_one_gets_the_newer_task() -> None:
    world = World(workers=1)
    world.poller.submit([Task("a", 1), Task("b", 1)])
    assert world.poller.submit([Task("a", 2), Task("b", 2)]) == {"b"}
    world.run()
    assert world.asked == ["a", "b"]


def test_more_guests_than_places_are_all_served_in_turn() -> None:
    world = World(workers=2)
    names = [f"g{number}" for number in range(1000)]
    world.ask(*names)
    assert world.asked == names


def test_a_defect_in_a_conversation_is_a_gap_and_costs_no_place() -> None:
    def broken(task: Task) -> GuestReading:
        raise ZeroDivisionError("defect")

    poller = GuestPoller(broken, workers=1, clock=lambda: 0.0, start=lambda work: work())
    poller.submit(tasks("a", "b"))
    for uuid in ("a", "b"):
        gap = poller.newest(uuid).gap
        assert gap is not None
        assert (gap.reason, gap.detail) == (GapReason.UNREADABLE, "ZeroDivisionError")


def test_a_thread_that_is_cut_off_gives_its_place_back() -> None:
    world = World(workers=1)
    cut = True

    def read(task: Task) -> GuestReading:
        if cut:
            raise SystemExit
        return GuestReading(at=1.0)

    poller = GuestPoller(read, workers=1, clock=lambda: world.now, start=world.started.append)
    poller.submit(tasks("a", "b"))
    with pytest.raises(SystemExit):
        world.started.pop()()
    cut = False
    poller.submit(tasks("b"))
    world.run()
    assert poller.newest("b").reading is not None


def test_where_no_thread_can_be_started_the_guest_backs_off_and_the_place_is_free() -> None:
    world = World(workers=1)
    broken = True

    def start(work: Callable[[], None]) -> None:
        if broken:
            raise RuntimeError("can't start new thread")
        work()

    poller = GuestPoller(world.read, workers=1, clock=lambda: world.now, start=start)
    poller.submit(tasks("a"))
    gap = poller.newest("a").gap
    assert gap is not None
    assert "thread" in gap.detail
    broken = False
    assert poller.submit(tasks("a")) == frozenset()
    poller.submit(tasks("b"))
    assert poller.newest("b").reading is not None


def test_a_forgotten_guest_is_forgotten_and_is_not_asked_any_more() -> None:
    world = World(workers=1)
    world.ask("a")
    world.poller.submit(tasks("b", "a"))
    world.poller.retain(["b"])
    world.run()
    assert world.asked == ["a", "b"]
    assert world.poller.newest("a").reading is None


def test_what_a_forgotten_guest_still_says_is_thrown_away_and_it_is_never_asked_twice_at_once() -> None:
    world = World()
    world.poller.submit(tasks("a"))
    world.poller.retain([])
    assert world.poller.submit(tasks("a")) == frozenset()
    world.run()
    assert world.asked == ["a"]
    assert world.poller.newest("a").reading is None
    world.ask("a")
    assert world.poller.newest("a").reading is not None


def test_a_poller_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="one worker"):
        World(workers=0)


class Guests:
    """Guests that hang until released, and count who is in flight. Threads are real."""

    def __init__(self, hung: set[str]) -> None:
        self.hung = hung
        self.release = threading.Event()
        self.changed = threading.Condition()
        self.in_flight: set[str] = set()
        self.most = 0
        self.served: dict[str, int] = {}

    def read(self, task: Task) -> GuestReading:
        with self.changed:
            assert task.uuid not in self.in_flight
            self.in_flight.add(task.uuid)
            self.most = max(self.most, len(self.in_flight))
            self.changed.notify_all()
        try:
            if task.uuid in self.hung:
                assert self.release.wait(WAIT_S)
                raise GuestTimeout("no answer")
            return GuestReading(at=1.0)
        finally:
            with self.changed:
                self.in_flight.discard(task.uuid)
                self.served[task.uuid] = self.served.get(task.uuid, 0) + 1
                self.changed.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, WAIT_S)


def test_ten_hung_guests_do_not_keep_the_others_from_being_served() -> None:
    hung = [f"hung{number}" for number in range(10)]
    well = [f"well{number}" for number in range(20)]
    guests = Guests(set(hung))
    poller = GuestPoller(guests.read)
    poller.submit(tasks(*well))
    guests.until(lambda: all(guests.served.get(uuid) == 1 for uuid in well))
    poller.submit(tasks(*hung))
    guests.until(lambda: len(guests.in_flight) == 3)
    # three hang now and stay so; the well ones go through the place that is left
    for turn in (2, 3, 4):
        waiting = set(well)
        while waiting:  # one that has just been served may count as in flight for a moment
            waiting -= poller.submit(tasks(*waiting))
        guests.until(lambda turn=turn: all(guests.served[uuid] == turn for uuid in well))  # type: ignore[misc]
    assert guests.most <= 4
    assert guests.served.keys() == set(well)
    guests.release.set()
    guests.until(lambda: all(guests.served.get(uuid) == 1 for uuid in hung))
    assert poller.close(WAIT_S)


def test_newcomers_never_hold_the_last_place_and_are_served_in_their_order() -> None:
    world = World()
    hung = [f"hung{number}" for number in range(10)]
    world.hung.update(hung)
    world.poller.submit(tasks(*hung, "well"))
    assert len(world.started) == 3
    world.started.pop(0)()  # the other two places stay held
    assert world.asked == ["hung0", *hung[3:], "well"]
    assert world.poller.newest("well").reading is not None


def test_one_that_answers_gets_the_place_that_hung_guests_may_not_have() -> None:
    world = World()
    world.ask("well")
    world.poller.submit(tasks(*(f"hung{number}" for number in range(10))))
    assert len(world.started) == 3
    world.poller.submit(tasks("well"))
    assert len(world.started) == 4
    world.started.pop()()
    assert world.asked == ["well", "well"]


def test_no_more_than_four_are_ever_in_flight() -> None:
    guests = Guests(set())
    poller = GuestPoller(guests.read)
    poller.submit(tasks(*(f"g{number}" for number in range(200))))
    guests.until(lambda: len(guests.served) == 200)
    assert guests.most <= 4
    assert poller.close(WAIT_S)


def test_closing_does_not_wait_for_a_hung_guest() -> None:
    guests = Guests({"hung"})
    poller = GuestPoller(guests.read)
    poller.submit(tasks("hung"))
    guests.until(lambda: len(guests.in_flight) == 1)
    assert poller.close(timeout_s=0) is False
    guests.release.set()
    assert poller.close(WAIT_S) is True


def test_a_closed_poller_takes_and_begins_nothing() -> None:
    world = World(workers=1)
    world.poller.submit(tasks("a", "b"))
    assert world.poller.close(timeout_s=0) is False
    assert world.poller.submit(tasks("c")) == frozenset()
    world.run()
    assert world.asked == ["a"]


def test_conversations_run_in_threads_that_do_not_keep_the_process_alive() -> None:
    seen: list[bool] = []
    done = threading.Event()

    def work() -> None:
        seen.append(threading.current_thread().daemon)
        done.set()

    start_daemon(work)
    assert done.wait(WAIT_S)
    assert seen == [True]


def test_an_agent_that_is_absent_backs_off_as_unsupported() -> None:
    def read(task: Task) -> GuestReading:
        raise GuestAgentAbsent("not connected")

    poller = GuestPoller(read, clock=lambda: 0.0, start=lambda work: work())
    poller.submit(tasks("a"))
    gap = poller.newest("a").gap
    assert gap is not None
    assert gap.reason is GapReason.UNSUPPORTED
    assert poller.submit(tasks("a")) == frozenset()


def test_a_guest_that_breaks_the_connection_does_not_end_its_back_off_by_connecting_anew() -> None:
    errors: list[GuestError] = [GuestConnectionLost("libvirtd is gone")]
    now = [0.0]

    def read(task: Task) -> GuestReading:
        raise errors[0]

    poller = GuestPoller(read, clock=lambda: now[0], start=lambda work: work())
    poller.submit([Task("a", 1)])
    poller.wake("a")
    assert poller.newest("a").retry_in_s > 0
    errors[0] = GuestAgentAbsent("not connected")
    now[0] = 1000.0
    poller.submit([Task("a", 1)])
    assert poller.newest("a").retry_in_s > 0
    poller.wake("a")
    assert poller.newest("a").retry_in_s == 0
