"""What Alembic runs: the revisions, on the connection that the caller holds."""

from __future__ import annotations

from alembic import context

from memhint.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
