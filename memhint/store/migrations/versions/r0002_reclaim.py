"""Requests to reclaim."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_DOCUMENT = sa.Text().with_variant(sa.Text(2**32 - 1), "mysql", "mariadb")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "reclaim",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("domain_uuid", sa.String(36), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("document", _DOCUMENT, nullable=False),
        if_not_exists=True,
    )
    op.create_index("ix_reclaim_host_state", "reclaim", ["host", "state"], if_not_exists=True)


def downgrade() -> None:
    """Drop it."""
    op.drop_table("reclaim")
