"""What the controllers know of each host, and what happened to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "host",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("epoch", sa.String(64), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("period", sa.Double, nullable=False),
        sa.Column("heard", sa.Double, nullable=False),
        sa.Column("clock_begin", sa.Double, nullable=False),
        sa.Column("silent", sa.Integer, nullable=False),
        sa.Column("lost", sa.BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "host_event",
        sa.Column("id", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_index("ux_host_event_once", "host_event", ["host", "at", "kind"], unique=True, if_not_exists=True)


def downgrade() -> None:
    """Drop them."""
    op.drop_table("host_event")
    op.drop_table("host")
