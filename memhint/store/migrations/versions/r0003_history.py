"""History of several lengths, and events that are there once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NUMBERS = ("headroom", "nominal_headroom", "assigned", "footprint", "resident", "available", "swap_used")
_EVENT = ("host", "at", "lever", "subject")


def upgrade() -> None:
    """Move the history, and drop events that are there twice."""
    op.create_table(
        "host_history",
        sa.Column("span", sa.Integer, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("bucket", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _NUMBERS),
        sa.Column("psi", sa.Double),
        sa.PrimaryKeyConstraint("host", "span", "at"),
        if_not_exists=True,
    )
    op.create_index("ix_host_history_age", "host_history", ["span", "bucket"], if_not_exists=True)
    numbers = ", ".join((*_NUMBERS, "psi"))
    worst = ", ".join(f"MAX({name})" for name in (*_NUMBERS, "psi"))
    if sa.inspect(op.get_bind()).has_table("history"):
        whole = {"sqlite": "CAST(at / 300 AS INTEGER)", "postgresql": "FLOOR(at / 300)::bigint"}
        bucket = whole.get(op.get_bind().dialect.name, "FLOOR(at / 300)")
        op.execute("DELETE FROM host_history")
        op.execute(
            f"INSERT INTO host_history (span, host, at, bucket, {numbers}) "
            f"SELECT 0, host, at, MAX({bucket}) * 300, {worst} FROM history GROUP BY host, at"
        )
        op.drop_table("history")
    once = f"SELECT id FROM (SELECT MIN(id) AS id FROM event GROUP BY {', '.join(_EVENT)}) AS first"
    op.execute(f"DELETE FROM event WHERE id NOT IN ({once})")
    op.create_index("ux_event_once", "event", list(_EVENT), unique=True, if_not_exists=True)


def downgrade() -> None:
    """Move the points of single cycles back; those of longer spans are lost."""
    op.create_table(
        "history",
        sa.Column("id", _SERIAL, primary_key=True, autoincrement=True),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _NUMBERS),
        sa.Column("psi", sa.Double),
    )
    op.create_index("ix_history_host_at", "history", ["host", "at"])
    numbers = ", ".join((*_NUMBERS, "psi"))
    op.execute(
        f"INSERT INTO history (host, at, {numbers}) "
        f"SELECT host, at, {numbers} FROM host_history WHERE span = 0 ORDER BY at"
    )
    op.drop_table("host_history")
    op.drop_index("ux_event_once", "event")
