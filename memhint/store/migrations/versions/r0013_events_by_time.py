"""Events are found by when they were, and by the VM that they are of."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_INDEXES = (
    ("ix_event_at", "event", ["at", "id"]),
    ("ix_event_subject_at", "event", ["subject", "at"]),
    ("ix_host_event_at", "host_event", ["at", "id"]),
)


def upgrade() -> None:
    """Make the indexes."""
    for name, table, columns in _INDEXES:
        op.create_index(name, table, columns, if_not_exists=True)


def downgrade() -> None:
    """Drop them."""
    for name, table, _ in _INDEXES:
        op.drop_index(name, table)
