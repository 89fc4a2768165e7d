"""What the planner of a host remembers, so that a restarted agent goes on where the last one was."""

from __future__ import annotations

from sqlalchemy import select

from memhint.planner.state import PlannerState
from memhint.store import codec
from memhint.store.engine import Database
from memhint.store.tables import planner_state
from memhint.store.upsert import upsert


class PlannerStates:
    """The newest planner state of each host."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, host: str, boot: str, state: PlannerState) -> None:
        """Keep a state. Its clock counts from the host's boot, which ``boot`` names.

        :raises StoreError: when the database fails
        """
        with self._database.write() as connection:
            upsert(connection, planner_state, {"host": host, "boot": boot, "document": codec.dump(state)})

    def newest(self, host: str, boot: str) -> PlannerState | None:
        """The state of a host in its present boot; None where there is none.

        :raises StoreDamaged: when it cannot be read
        :raises StoreError: when the database fails
        """
        query = select(planner_state.c.document).where(planner_state.c.host == host, planner_state.c.boot == boot)
        with self._database.read() as connection:
            document = connection.execute(query).scalar()
        return None if document is None else codec.parse_as(document, PlannerState)
