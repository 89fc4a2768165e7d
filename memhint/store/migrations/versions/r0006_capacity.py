"""What memhint has done about each provider's allocation ratio."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, and the columns of what it depends on."""
    there = {one["name"] for one in sa.inspect(op.get_bind()).get_columns("host_summary")}
    if "forced_ratio" not in there:
        op.add_column("host_summary", sa.Column("forced_ratio", sa.Double))
    if "slot_overhead" not in there:
        op.add_column("host_summary", sa.Column("slot_overhead", sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "capacity",
        sa.Column("provider", sa.String(36), primary_key=True),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("adopted", sa.Double, nullable=False),
        sa.Column("written", sa.Double),
        sa.Column("intended", sa.Double),
        sa.Column("tenure", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("epoch", sa.String(64), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("turn_until", sa.Double, nullable=False),
        if_not_exists=True,
    )


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("host_summary") as table:
        table.drop_column("slot_overhead")
        table.drop_column("forced_ratio")
    op.drop_table("capacity")
