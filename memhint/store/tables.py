"""The tables. Types are chosen for SQLite, PostgreSQL and MariaDB alike."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

metadata = MetaData()

# MariaDB's plain TEXT ends at 64 KiB; a report of a hundred VMs is larger.
DOCUMENT = Text().with_variant(Text(2**32 - 1), "mysql", "mariadb")
# SQLite counts rows by itself only in a column that is called INTEGER.
SERIAL = BigInteger().with_variant(Integer, "sqlite")

report = Table(
    "report",
    metadata,
    Column("host", String(255), primary_key=True),
    Column("epoch", String(64), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
    Column("document", DOCUMENT, nullable=False),
)

host_history = Table(
    "host_history",
    metadata,
    Column("span", Integer, nullable=False),  # seconds, 0 for one cycle
    Column("host", String(255), nullable=False),
    Column("at", Double, nullable=False),
    Column("bucket", BigInteger, nullable=False),  # where the next longer span begins that this point falls into
    Column("headroom", BigInteger, nullable=False),
    Column("nominal_headroom", BigInteger, nullable=False),
    Column("assigned", BigInteger, nullable=False),
    Column("footprint", BigInteger, nullable=False),
    Column("resident", BigInteger, nullable=False),
    Column("available", BigInteger, nullable=False),
    Column("swap_used", BigInteger, nullable=False),
    Column("psi", Double),
    # A host's clock tells its cycles apart: a point that arrives twice is one point.
    PrimaryKeyConstraint("host", "span", "at"),
    Index("ix_host_history_age", "span", "bucket"),
)

policy = Table(
    "policy",
    metadata,
    Column("domain_uuid", String(36), nullable=False),
    Column("origin", String(16), nullable=False),
    Column("key", String(64), nullable=False),
    Column("value", String(255), nullable=False),
    Column("set_at", Double, nullable=False),
    PrimaryKeyConstraint("domain_uuid", "origin", "key"),
)

mark = Table(
    "mark",
    metadata,
    Column("host", String(255), nullable=False),
    Column("subject", String(64), nullable=False),
    Column("knob", String(255), nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("instance", String(255), nullable=False),
    Column("at", Double, nullable=False),
    PrimaryKeyConstraint("host", "subject", "knob"),
)

event = Table(
    "event",
    metadata,
    Column("id", SERIAL, primary_key=True, autoincrement=True),
    Column("at", Double, nullable=False),
    Column("host", String(255), nullable=False),
    Column("subject", String(64), nullable=False),
    Column("lever", String(32), nullable=False),
    Column("desired", String(64), nullable=False),
    Column("answer", String(32), nullable=False),
    Column("reason", String(32), nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_event_host_at", "host", "at"),
    Index("ux_event_once", "host", "at", "lever", "subject", unique=True),
)

reclaim = Table(
    "reclaim",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("domain_uuid", String(36), nullable=False),
    Column("state", String(16), nullable=False),
    Column("at", Double, nullable=False),
    Column("document", DOCUMENT, nullable=False),
    Index("ix_reclaim_host_state", "host", "state"),
)

planner_state = Table(
    "planner_state",
    metadata,
    Column("host", String(255), primary_key=True),
    Column("boot", String(64), nullable=False),
    Column("document", DOCUMENT, nullable=False),
)

host = Table(
    "host",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("epoch", String(64), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("period", Double, nullable=False),  # seconds
    Column("heard", Double, nullable=False),  # when its newest report was made, on the database's clock
    Column("clock_begin", Double, nullable=False),  # when this life of its agent began, on the database's clock
    Column("silent", Integer, nullable=False),  # 0 or 1
    Column("lost", BigInteger, nullable=False),  # points and events that had no room in its spool
)

host_event = Table(
    "host_event",
    metadata,
    Column("id", SERIAL, primary_key=True, autoincrement=True),
    Column("at", Double, nullable=False),
    Column("host", String(255), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("detail", Text, nullable=False),
    Index("ux_host_event_once", "host", "at", "kind", unique=True),
)
