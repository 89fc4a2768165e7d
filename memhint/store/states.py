"""What the planner of a host remembers, so that a restarted agent goes on where the last one was."""

from __future__ import annotations

from sqlalchemy import select

from memhint.planner.state import PlannerState
from memhint.store import codec
from memhint.store.engine import Database
from memhint.store.tables import planner_state
from memhint.store.upsert import upsert


class PlannerStates:
    """The newest planner state of each host. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, host: str, boot: str, state: PlannerState, ended: float | None = None) -> None:
        """Keep a state. Its clock counts from the host's boot, which ``boot`` names.

        :param ended: unix seconds at which the agent ends, where this is the last state of its life
        """
        row = {"host": host, "boot": boot, "document": codec.dump(state), "ended": ended}
        with self._database.write() as connection:
            upsert(connection, planner_state, row)

    def newest(self, host: str, boot: str) -> PlannerState | None:
        """The state of a host in its present boot; None where there is none.

        :raises StoreDamaged: when it cannot be read
        """
        query = select(planner_state.c.document).where(planner_state.c.host == host, planner_state.c.boot == boot)
        with self._database.read() as connection:
            document = connection.execute(query).scalar()
        return None if document is None else codec.parse_as(document, PlannerState)

    def of_last_boot(self, host: str, boot: str) -> tuple[PlannerState, float | None] | None:
        """The last state of a host in another boot than this, and when that one went down in order; None without one.

        :raises StoreDamaged: when it cannot be read
        """
        columns = planner_state.c.document, planner_state.c.ended
        query = select(*columns).where(planner_state.c.host == host, planner_state.c.boot != boot)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else (codec.parse_as(row.document, PlannerState), row.ended)
