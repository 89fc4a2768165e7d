"""What a controller does with messages: into the store, all or none; and the sweep for hosts that say nothing."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from memhint.bus.envelope import Envelope
from memhint.bus.rabbit_consumer import HandlerUnavailable
from memhint.bus.record import Record
from memhint.controller.listening import Listening
from memhint.objects.report import Report
from memhint.store import Store
from memhint.store.errors import NOT_AWAY, StoreDamaged, StoreError, StoreFailed, StoreRefused
from memhint.store.fleet import HostRecord, State

LOG = logging.getLogger(__name__)

_QUIET = 60.0  # seconds for which one sender's refused messages are only counted


class Intake:
    """The handler of a consumer. It remembers nothing that another controller would need."""

    def __init__(
        self,
        store: Store,
        sweep: float,
        look: Callable[[Sequence[Report]], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        listening: Listening | None = None,
    ) -> None:
        """:param sweep: seconds between two looks for silent hosts
        :param look: who is shown the reports that are the newest of their hosts now
        :param listening: is told when the store is away; None: nobody else wants to know
        """
        self._fleet = store.fleet
        self._sweep = sweep
        self._look = look
        self._clock = clock
        self._swept = clock()
        self._listening = Listening(clock) if listening is None else listening
        self._spoiled = -_QUIET  # when the log last told of whom a sweep had to leave as it is
        self._noted: dict[str, tuple[int, float]] = {}  # by sender: left out since then
        self.counts: Counter[str] = Counter()  # sweeps, silenced, spoiled, failed

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        """Keep a batch in one transaction; where one message spoils it, each in its own.

        :raises HandlerUnavailable: when the store is away
        """
        try:
            self._keep(batch)
            return [None] * len(batch)
        except (StoreRefused, StoreDamaged):
            return [self._alone(one) for one in batch]
        except StoreFailed as error:  # so may one of them be, or their number
            LOG.error("a batch could not be kept, each of its messages is tried by itself: %s", error)
            self._rehearse()
            return [self._alone(one) for one in batch]
        except StoreError as error:
            raise self._unavailable(error) from error
        except Exception:  # one of them is to blame: the others are kept
            LOG.exception("a batch could not be kept, each of its messages is tried by itself")
            return [self._alone(one) for one in batch]

    def ready(self) -> None:
        """See Handler. No host is called silent before what waits of it was fetched.

        :raises HandlerUnavailable: when the store is away
        """
        try:
            self._fleet.rehearse()
        except (StoreRefused, StoreDamaged):
            pass  # it is there: what is wrong with it shows with each message
        except StoreError as error:
            raise self._unavailable(error) from error
        except Exception:  # a defect of the rehearsal is no reason to fetch no message any more
            LOG.exception("whether messages could be kept was not found out")

    def poison(self, user: str, why: str) -> None:
        """Note who sent it, once in a while: a sender of nothing else must not keep the database busy."""
        self._note(user, "a message of %r goes to the dead letters: %s", why)

    def over(self, user: str) -> None:
        """Note who sends more than one sender may, once in a while."""
        self._note(user, "messages of %r are dropped unread: %s", "it sends more than is taken of one host")

    def tick(self) -> None:
        """Look for silent hosts when it is time to."""
        now = self._clock()
        try:
            if now - self._swept >= self._sweep:
                self._swept = now
                self._look_for_silence()
        except Exception as error:  # a consumer that ends here would leave its messages to others, for nothing
            self.counts["failed"] += 1
            # What a sweep cannot do for good is no outage: as one it would keep every host from being called silent.
            if isinstance(error, StoreError) and not isinstance(error, NOT_AWAY):
                self._listening.away()
            LOG.error(
                "hosts that are silent now are marked later: %s", error, exc_info=not isinstance(error, StoreError)
            )

    def _look_for_silence(self) -> None:
        self.counts["sweeps"] += 1
        for host in self._fleet.sweep(self._listening.since_outage(), self._spoil):
            self.counts["silenced"] += 1
            LOG.warning("%s is silent: its data count for nothing any more", host)

    def _spoil(self, name: str, error: StoreError) -> None:
        """Count a host or a request that a sweep had to leave as it is, and tell of one once in a while."""
        self.counts["spoiled"] += 1
        now = self._clock()
        if now - self._spoiled >= _QUIET:
            self._spoiled = now
            LOG.error("%s stays as it is: the database refuses what a look for silent hosts finds: %s", name, error)

    def _unavailable(self, error: StoreError) -> HandlerUnavailable:
        self._listening.away()
        return HandlerUnavailable(str(error))

    def _rehearse(self) -> None:
        """Whether the store takes what is not to blame.

        :raises HandlerUnavailable: when it does not
        """
        try:
            self._fleet.rehearse()
        except StoreError as error:
            raise self._unavailable(error) from error

    def _alone(self, one: Envelope) -> str | None:
        try:
            try:
                self._keep([one])
            except StoreFailed as error:  # whatever it was may be over: once more, where the store is well
                LOG.info("a message of %r could not be kept, it is tried once more: %s", one.host, error)
                self._rehearse()
                self._keep([one])
        except (StoreRefused, StoreDamaged) as error:
            return str(error)[:300]
        except StoreFailed as error:
            self._rehearse()
            return f"keeping it fails: {error}"[:300]
        except StoreError as error:
            raise self._unavailable(error) from error
        except HandlerUnavailable:
            raise
        except Exception as error:
            LOG.exception("a message of %r could not be kept", one.host)
            return f"keeping it failed: {type(error).__name__}"
        return None

    def _note(self, user: str, text: str, why: str) -> None:
        now = self._clock()
        count, since = self._noted.get(user, (0, -_QUIET))
        if now - since < _QUIET:
            self._noted[user] = (count + 1, since)
            return
        self._noted = {name: one for name, one in self._noted.items() if now - one[1] < _QUIET}
        self._noted[user] = (0, now)
        LOG.error(text, user, f"{why} ({count} more in the last minutes)" if count else why)
        try:
            self._fleet.refused(user, why)
        except Exception as error:  # noqa: BLE001  the note is lost, and nothing else
            LOG.error("the refused message of %r was not noted: %s", user, error)

    def _keep(self, batch: Sequence[Envelope]) -> None:
        now = self._clock()
        states = [
            State(one.body, one.clock, one.text, 0.0 if one.came is None else max(0.0, now - one.came))
            for one in batch
            if isinstance(one.body, Report)
        ]
        records = [
            HostRecord(
                one.host, one.body.points, one.body.events, one.body.lost, one.body.reclaims, one.epoch, one.body.spool
            )
            for one in batch
            if isinstance(one.body, Record)
        ]
        newest = self._fleet.take(states, records)
        try:
            self._look(newest)
        except StoreError as error:  # the batch is kept; the next report of these hosts shows the same
            LOG.error("what hosts lack is sent later: %s", error)
        except Exception:  # one of them is to blame: it waits alone
            LOG.exception("what hosts lack is looked for in each report by itself")
            for one in newest:
                try:
                    self._look([one])
                except Exception as error:  # noqa: BLE001  the traceback of the whole is in the log
                    LOG.error("what %s lacks is sent later: %s", one.host, error)
