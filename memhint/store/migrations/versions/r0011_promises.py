"""What hosts promised against what came."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "promise_hour",
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("promised", sa.BigInteger, nullable=False),
        sa.Column("came", sa.BigInteger, nullable=False),
        sa.Column("held", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("host", "at"),
        if_not_exists=True,
    )
    op.create_table(
        "promise_host",
        sa.Column("host", sa.String(255), primary_key=True),
        sa.Column("looked", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        if_not_exists=True,
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("promise_host")
    op.drop_table("promise_hour")
