"""The first tables: report, history, policy, mark and event.

``if_not_exists`` here and in the revisions that follow: MariaDB commits each table by itself, so that an upgrade that
was interrupted there begins its revision again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_DOCUMENT = sa.Text().with_variant(sa.Text(2**32 - 1), "mysql", "mariadb")
_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make them."""
    if op.get_bind().dialect.name in ("mysql", "mariadb"):
        # Its defaults would take two names that differ by case only for one.
        op.execute("ALTER DATABASE CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    op.create_table(
        "report",
        sa.Column("host", sa.String(255), primary_key=True),
        sa.Column("epoch", sa.String(64), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("document", _DOCUMENT, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "history",
        sa.Column("id", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("headroom", sa.BigInteger, nullable=False),
        sa.Column("nominal_headroom", sa.BigInteger, nullable=False),
        sa.Column("assigned", sa.BigInteger, nullable=False),
        sa.Column("footprint", sa.BigInteger, nullable=False),
        sa.Column("resident", sa.BigInteger, nullable=False),
        sa.Column("available", sa.BigInteger, nullable=False),
        sa.Column("swap_used", sa.BigInteger, nullable=False),
        sa.Column("psi", sa.Double),
        if_not_exists=True,
    )
    op.create_index("ix_history_host_at", "history", ["host", "at"], if_not_exists=True)
    op.create_table(
        "policy",
        sa.Column("domain_uuid", sa.String(36), nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("value", sa.String(255), nullable=False),
        sa.Column("set_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("domain_uuid", "origin", "key"),
        if_not_exists=True,
    )
    op.create_table(
        "mark",
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("knob", sa.String(255), nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.Column("after", sa.Text, nullable=False),
        sa.Column("instance", sa.String(255), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("host", "subject", "knob"),
        if_not_exists=True,
    )
    op.create_table(
        "event",
        sa.Column("id", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("lever", sa.String(32), nullable=False),
        sa.Column("desired", sa.String(64), nullable=False),
        sa.Column("answer", sa.String(32), nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_index("ix_event_host_at", "event", ["host", "at"], if_not_exists=True)
    op.create_table(
        "planner_state",
        sa.Column("host", sa.String(255), primary_key=True),
        sa.Column("boot", sa.String(64), nullable=False),
        sa.Column("document", _DOCUMENT, nullable=False),
        if_not_exists=True,
    )


def downgrade() -> None:
    """Drop them."""
    for name in ("planner_state", "event", "mark", "policy", "history", "report"):
        op.drop_table(name)
