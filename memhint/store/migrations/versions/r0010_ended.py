"""When the agent ended in order whose planner's state is kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    if "ended" not in {one["name"] for one in sa.inspect(op.get_bind()).get_columns("planner_state")}:
        op.add_column("planner_state", sa.Column("ended", sa.Double))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("planner_state", "ended")
