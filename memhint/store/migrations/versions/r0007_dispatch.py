"""Wishes that hold on whatever host a VM is, and requests that are taken back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table and the column."""
    op.create_table(
        "central_policy",
        sa.Column("domain_uuid", sa.String(36), primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
        if_not_exists=True,
    )
    if "interrupted" not in {one["name"] for one in sa.inspect(op.get_bind()).get_columns("reclaim")}:
        op.add_column("reclaim", sa.Column("interrupted", sa.String(255)))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("reclaim", "interrupted")
    op.drop_table("central_policy")
