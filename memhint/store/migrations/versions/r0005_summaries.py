"""A line of each host and VM, the VMs' history, and numbers by which changes are told."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_HOST_SIZES = (
    "pool",
    "reserve",
    "assigned",
    "footprint",
    "resident",
    "available",
    "swap_used",
    "want",
    "spare",
    "headroom",
    "nominal_headroom",
    "slot",
    "slots",
    "nominal_slots",
)
_HOST_SUMS = (
    "reported",
    "unreported",
    "returned",
    "reclaimable_reporting",
    "reclaimable_cache",
    "reclaimable_dedup",
)
_HISTORY = ("resident", "footprint", "demand", "free", "reported", "unreported", "shared", "swap")
_DOMAIN = (*_HISTORY, "returned", "reclaimable")


def upgrade() -> None:
    """Make the tables. The lines come with each host's next report."""
    op.create_table(
        "host_summary",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("silent", sa.Integer, nullable=False),
        sa.Column("heard", sa.Double, nullable=False),
        sa.Column("provider", sa.String(36)),
        sa.Column("epoch", sa.String(64), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("period", sa.Double, nullable=False),
        sa.Column("agent", sa.String(64)),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _HOST_SIZES),
        sa.Column("ksm_saving", sa.BigInteger),
        sa.Column("bound", sa.String(16), nullable=False),
        sa.Column("admitting", sa.Integer, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("psi", sa.Double),
        *(sa.Column(name, sa.BigInteger) for name in _HOST_SUMS),
        sa.Column("rungs", sa.String(255), nullable=False),
        sa.Column("domains", sa.Integer, nullable=False),
        sa.Column("gaps", sa.Integer, nullable=False),
        postgresql_with={"fillfactor": 50},
        if_not_exists=True,
    )
    op.create_table(
        "domain",
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("fingerprint", sa.BigInteger, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("project", sa.String(255)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("qos", sa.String(16), nullable=False),
        sa.Column("assigned", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.BigInteger) for name in _DOMAIN),
        sa.Column("demand_reason", sa.String(16)),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("agreement", sa.String(16)),
        sa.PrimaryKeyConstraint("host", "uuid"),
        postgresql_with={"fillfactor": 70},
        if_not_exists=True,
    )
    op.create_index("ix_domain_uuid", "domain", ["uuid"], if_not_exists=True)
    op.create_index("ix_domain_project", "domain", ["project"], if_not_exists=True)
    op.create_table(
        "domain_history",
        sa.Column("span", sa.Integer, nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("bucket", sa.BigInteger, nullable=False),
        sa.Column("assigned", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.BigInteger) for name in _HISTORY),
        sa.PrimaryKeyConstraint("uuid", "span", "at"),
        if_not_exists=True,
    )
    op.create_index("ix_domain_history_age", "domain_history", ["span", "bucket"], if_not_exists=True)
    op.create_table(
        "tombstone",
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("kind", "name"),
        if_not_exists=True,
    )
    op.create_table(
        "revision",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("value", sa.BigInteger, nullable=False),
        sa.Column("oldest", sa.BigInteger, nullable=False),
        if_not_exists=True,
    )
    # Beginning with the time, a store that was made anew knows the numbers of its predecessor for too old.
    start = int(time.time() * 1000)
    op.execute("DELETE FROM revision")
    op.execute(f"INSERT INTO revision (id, value, oldest) VALUES (1, {start}, {start})")
    _pack_faster()


def _pack_faster() -> None:
    """PostgreSQL's own way to pack documents costs more processor time than all else that is done with a report."""
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    known = "SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
    if connection.execute(sa.text(known)).scalar():
        op.execute("ALTER TABLE report ALTER COLUMN document SET COMPRESSION lz4")


def downgrade() -> None:
    """Drop them."""
    for name in ("revision", "tombstone", "domain_history", "domain", "host_summary"):
        op.drop_table(name)
