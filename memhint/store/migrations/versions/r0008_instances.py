"""Whose each VM is and where it runs, as Nova says."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "instance",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("project", sa.String(255), nullable=False),
        sa.Column("hypervisor", sa.String(255)),
        sa.Column("look", sa.BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_index("ix_instance_project", "instance", ["project"], if_not_exists=True)
    op.create_table(
        "instance_look",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("turn_until", sa.Double, nullable=False),
        sa.Column("last", sa.Double),
        sa.Column("whole", sa.Double),
        if_not_exists=True,
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("instance_look")
    op.drop_table("instance")
