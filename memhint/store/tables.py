"""The tables. Types are chosen for SQLite, PostgreSQL and MariaDB alike.

How full PostgreSQL packs their pages is the migrations' affair: an option of its own here would load its dialect into
every process, SQLite's too.
"""

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

from memhint.store.rows.names import DOMAIN_HISTORY_SIZES, DOMAIN_SIZES, HOST_LOAD, HOST_SIZES, HOST_SUMS

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
    Column("set_at", Double, nullable=False),  # or, later than that: when its VM was seen, to a day
    PrimaryKeyConstraint("domain_uuid", "origin", "key"),
)

# VMs whose operator's wishes are those of this store, whatever their hosts have. Only in the store of a fleet.
central_policy = Table(
    "central_policy",
    metadata,
    Column("domain_uuid", String(36), primary_key=True),
    Column("version", BigInteger, nullable=False),  # newer wishes have a larger one
    Column("seen", Double, nullable=False),  # when a host had this VM, on the database's clock
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
    Index("ix_event_at", "at", "id"),
    Index("ix_event_subject_at", "subject", "at"),
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
    Column("interrupted", String(255)),  # why it shall end; None: it may go on
    Index("ix_reclaim_host_state", "host", "state"),
)

# What lists show, sort and filter by. No index on anything that changes with every report: PostgreSQL then rewrites a
# row within its page, and no index with it. The largest fleet's lists are sorted by reading them.
host_summary = Table(
    "host_summary",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("silent", Integer, nullable=False),  # 0 or 1
    Column("heard", Double, nullable=False),  # when its newest report was made, on the database's clock
    Column("provider", String(36)),
    Column("forced_ratio", Double),
    Column("slot_overhead", BigInteger, nullable=False, server_default="0"),
    Column("epoch", String(64), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
    Column("period", Double, nullable=False),
    Column("agent", String(64)),
    *(Column(name, BigInteger, nullable=False) for name in HOST_SIZES),
    Column("ksm_saving", BigInteger),
    Column("bound", String(16), nullable=False),
    Column("admitting", Integer, nullable=False),  # 0 or 1
    Column("detail", Text, nullable=False),
    Column("psi", Double),
    *(Column(name, BigInteger) for name in HOST_SUMS),
    *(Column(name, BigInteger) for name in HOST_LOAD),
    Column("rungs", String(255), nullable=False),  # by commas
    Column("domains", Integer, nullable=False),
    Column("gaps", Integer, nullable=False),
)

domain = Table(
    "domain",
    metadata,
    Column("uuid", String(36), nullable=False),
    Column("host", String(255), nullable=False),  # while a VM moves, two hosts have it
    Column("revision", BigInteger, nullable=False),
    Column("fingerprint", BigInteger, nullable=False),  # of all that follows, without what moves by next to nothing
    Column("name", String(255), nullable=False),
    Column("project", String(255)),
    Column("state", String(16), nullable=False),
    Column("qos", String(16), nullable=False),
    Column("assigned", BigInteger, nullable=False),
    *(Column(name, BigInteger) for name in DOMAIN_SIZES),
    Column("demand_reason", String(16)),
    Column("source", String(16), nullable=False),
    Column("agreement", String(16)),
    PrimaryKeyConstraint("host", "uuid"),
    Index("ix_domain_uuid", "uuid"),
    Index("ix_domain_project", "project"),
)

# What Nova says, where it is followed.
instance = Table(
    "instance",
    metadata,
    Column("uuid", String(36), primary_key=True),
    Column("project", String(255), nullable=False),
    Column("hypervisor", String(255)),
    Column("look", BigInteger, nullable=False),  # the number of the last look that has seen it
    Index("ix_instance_project", "project"),
)

instance_look = Table(
    "instance_look",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # one row
    Column("number", BigInteger, nullable=False),
    Column("turn_until", Double, nullable=False),  # on the database's clock, like the others
    Column("last", Double),
    Column("whole", Double),
)

# What the VMs of each host tell of how VMs grow, and when that was looked at, on the database's clock.
growth_host = Table(
    "growth_host",
    metadata,
    Column("host", String(255), primary_key=True),
    Column("looked", Double, nullable=False),
    Column("document", DOCUMENT, nullable=False),
)

# The fleet's growth table: a controller's, and in an agent's own store the one that it was sent.
growth = Table(
    "growth",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # one row
    Column("version", BigInteger, nullable=False),
    Column("made", Double, nullable=False),  # on the database's clock, like the next
    Column("turn_until", Double, nullable=False),
    Column("document", DOCUMENT, nullable=False),
)

# What each host promised as an hour began, against what came in it.
promise_hour = Table(
    "promise_hour",
    metadata,
    Column("host", String(255), nullable=False),
    Column("at", BigInteger, nullable=False),  # unix seconds
    Column("promised", BigInteger, nullable=False),
    Column("came", BigInteger, nullable=False),
    Column("held", Integer, nullable=False),  # 0 or 1
    PrimaryKeyConstraint("host", "at"),
)

promise_host = Table(
    "promise_host",
    metadata,
    Column("host", String(255), primary_key=True),
    Column("looked", Double, nullable=False),  # on the database's clock
    Column("until", Double, nullable=False),  # unix seconds: hours before are judged
)

domain_history = Table(
    "domain_history",
    metadata,
    Column("span", Integer, nullable=False),  # seconds, 0 for one cycle
    Column("uuid", String(36), nullable=False),
    Column("at", Double, nullable=False),
    Column("bucket", BigInteger, nullable=False),  # where the next longer span begins that this point falls into
    Column("assigned", BigInteger, nullable=False),
    *(Column(name, BigInteger) for name in DOMAIN_HISTORY_SIZES),
    PrimaryKeyConstraint("uuid", "span", "at"),
    Index("ix_domain_history_age", "span", "bucket"),
)

# What is no more, for those who were told of it.
tombstone = Table(
    "tombstone",
    metadata,
    Column("kind", String(16), nullable=False),
    Column("name", String(255), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("at", Double, nullable=False),  # on the database's clock
    PrimaryKeyConstraint("kind", "name"),
)

# One row. A transaction that changes what is told by revision takes the next number and locks the row: numbers
# become visible in their order, so who asks for what is newer than a number misses nothing.
revision = Table(
    "revision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("value", BigInteger, nullable=False),
    Column("oldest", BigInteger, nullable=False),  # changes up to here can no longer be told
)

planner_state = Table(
    "planner_state",
    metadata,
    Column("host", String(255), primary_key=True),
    Column("boot", String(64), nullable=False),
    Column("document", DOCUMENT, nullable=False),
    Column("ended", Double),  # unix seconds at which its agent ended in order; NULL while it runs, or broke off
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
    Column("spool", String(64)),  # which one that is, where its agent tells
)

capacity = Table(
    "capacity",
    metadata,
    Column("provider", String(36), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("adopted", Double, nullable=False),
    Column("written", Double),
    Column("intended", Double),
    Column("tenure", String(16), nullable=False),
    Column("detail", Text, nullable=False),
    Column("epoch", String(64), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
    Column("holder", String(64), nullable=False),  # who writes now, empty: no controller
    Column("turn_until", Double, nullable=False),  # on the database's clock
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
    Index("ix_host_event_at", "at", "id"),
)
