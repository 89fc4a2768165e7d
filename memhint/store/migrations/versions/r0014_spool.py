"""Which spool it is of which a host tells what had no room: one that was made anew counts from the beginning."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the column."""
    there = {one["name"] for one in sa.inspect(op.get_bind()).get_columns("host")}
    if "spool" not in there:
        op.add_column("host", sa.Column("spool", sa.String(64)))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("host", "spool")
