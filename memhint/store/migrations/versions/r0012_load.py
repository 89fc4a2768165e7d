"""What the VMs of each host have and use, for what a tier of slower memory would give them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_COLUMNS = ("load_used", "load_active", "load_vms", "load_read")


def upgrade() -> None:
    """Make the columns."""
    there = {one["name"] for one in sa.inspect(op.get_bind()).get_columns("host_summary")}
    for name in _COLUMNS:
        if name not in there:
            op.add_column("host_summary", sa.Column(name, sa.BigInteger))


def downgrade() -> None:
    """Drop them."""
    for name in _COLUMNS:
        op.drop_column("host_summary", name)
