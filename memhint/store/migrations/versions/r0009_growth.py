"""What hosts tell of how VMs grow, and the table that is made of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_DOCUMENT = sa.Text().with_variant(sa.Text(2**32 - 1), "mysql", "mariadb")


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "growth_host",
        sa.Column("host", sa.String(255), primary_key=True),
        sa.Column("looked", sa.Double, nullable=False),
        sa.Column("document", _DOCUMENT, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "growth",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("made", sa.Double, nullable=False),
        sa.Column("turn_until", sa.Double, nullable=False),
        sa.Column("document", _DOCUMENT, nullable=False),
        if_not_exists=True,
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("growth")
    op.drop_table("growth_host")
