"""The tables of the lease store, newest schema. How an older database gets there is told in `migrations`.

Instants are seconds since the epoch. `leases` and `actions` have the columns of `LeaseRecord`, `LeaseTerms`
and `ActionRecord`, under the same names. What is read only as a whole (a decided preemption) is a document.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    false,
    text,
)
from sqlalchemy.dialects.mysql import LONGTEXT
from sqlalchemy.types import TypeEngine

metadata = MetaData()

ID_LENGTH = 255
WORD_LENGTH = 64
# SQLite numbers rows by itself only in a column declared INTEGER.
ROW_NUMBER: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
# Of what grows with the VMs of a lease: what MariaDB calls TEXT ends after 64 KiB.
LONG_TEXT: TypeEngine[str] = Text().with_variant(LONGTEXT(), "mysql", "mariadb")

leases = Table(
    "leases",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("type", String(WORD_LENGTH), nullable=False),
    Column("name", String(ID_LENGTH), nullable=False),
    Column("size", Integer, nullable=False),
    Column("duration_s", BigInteger),
    Column("start_at_s", BigInteger),
    Column("start_offset_s", BigInteger),
    Column("deadline_at_s", BigInteger),
    Column("max_suspensions", BigInteger),
    Column("shutdown_ok", Boolean, nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("gid", BigInteger, nullable=False),
    Column("explicit", Boolean, nullable=False),
    Column("may_preempt", Boolean, nullable=False),
    Column("admitted_at_s", BigInteger, nullable=False),
    Column("arrived_at_s", BigInteger, nullable=False),
    Column("rule", String(ID_LENGTH), nullable=False),
    Column("preemptions", Integer, nullable=False),
    Column("preempted_by", BigInteger),
    Column("last_preempted_at_s", BigInteger),
    Column("ended_at_s", BigInteger),
    Column("shielded_by_lock", Boolean, nullable=False),
    Column("at_once", Boolean, nullable=False, server_default=false()),
    Column("verdict", String(WORD_LENGTH), nullable=False, server_default=text("'none'")),
    Column("verdict_text", Text, nullable=False, server_default=text("''")),
    Column("served_s", BigInteger, nullable=False, server_default=text("0")),
    Column("run_began_at_s", BigInteger),
    Column("paused_vm_ids", LONG_TEXT),
    Index("ix_leases_ended_at_s", "ended_at_s"),
)

lease_members = Table(
    "lease_members",
    metadata,
    Column("lease_id", ForeignKey("leases.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("vm_id", BigInteger, nullable=False),
    Index("ix_lease_members_vm_id", "vm_id"),
)

transitions = Table(
    "transitions",
    metadata,
    Column("number", ROW_NUMBER, primary_key=True),
    Column("vm_id", BigInteger, nullable=False),
    Column("lease_id", BigInteger, nullable=False),
    Column("observed_at_s", BigInteger, nullable=False),
    Column("from_state", String(WORD_LENGTH), nullable=False),
    Column("to_state", String(WORD_LENGTH), nullable=False),
    Column("host_id", BigInteger),
    Column("memory_mib", BigInteger, nullable=False),
    Index("ix_transitions_vm_id", "vm_id", "number"),
    Index("ix_transitions_observed_at_s", "observed_at_s"),
)

vm_states = Table(
    "vm_states",
    metadata,
    Column("vm_id", BigInteger, primary_key=True, autoincrement=False),
    Column("state", String(WORD_LENGTH), nullable=False),
    Column("observed_at_s", BigInteger, nullable=False),
)

plans = Table(
    "plans",
    metadata,
    Column("number", ROW_NUMBER, primary_key=True),
    Column("made_at_s", BigInteger, nullable=False),
    Column("policy", String(WORD_LENGTH), nullable=False),
    Column("wake_at_s", BigInteger),
    Index("ix_plans_made_at_s", "made_at_s"),
)


def _step_columns(*, closed: bool) -> tuple[Column[Any], ...]:
    """What is kept of a step and of its answer (`ActionRecord`); `closed`: nothing but what has come to an end."""
    return (
        Column("kind", String(WORD_LENGTH), nullable=False),
        Column("vm_id", BigInteger, nullable=False),
        Column("lease_id", BigInteger, nullable=False),
        Column("preemption_id", String(ID_LENGTH)),
        Column("host_id", BigInteger),
        Column("datastore_id", BigInteger),
        Column("reason_code", String(ID_LENGTH), nullable=False),
        Column("reason_text", Text, nullable=False),
        Column("intended_at_s", BigInteger, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("outcome", String(WORD_LENGTH)),
        Column("outcome_at_s", BigInteger),
        Column("error_code", String(ID_LENGTH), nullable=False),
        Column("error_text", Text, nullable=False),
        Column("closed_at_s", BigInteger, nullable=not closed),
        Column("succeeded", Boolean, nullable=not closed),
    )


actions = Table(
    "actions",
    metadata,
    Column("id", String(ID_LENGTH), primary_key=True),
    Column("plan_number", ForeignKey("plans.number", ondelete="SET NULL")),
    *_step_columns(closed=False),
    Index("ix_actions_closed_at_s", "closed_at_s"),
    Index("ix_actions_intended_at_s", "intended_at_s", "id"),
    Index("ix_actions_lease_id", "lease_id", "intended_at_s"),
    Index("ix_actions_plan_number", "plan_number"),
)

# What became of a step, for each time before the one that `actions` tells of; the columns of `ActionRecord`.
past_actions = Table(
    "past_actions",
    metadata,
    Column("number", ROW_NUMBER, primary_key=True),
    Column("id", String(ID_LENGTH), nullable=False),
    *_step_columns(closed=True),
    Index("ix_past_actions_closed_at_s", "closed_at_s"),
    Index("ix_past_actions_intended_at_s", "intended_at_s", "id"),
    Index("ix_past_actions_lease_id", "lease_id", "intended_at_s"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("number", ROW_NUMBER, primary_key=True),
    Column("action_id", ForeignKey("actions.id", ondelete="CASCADE"), nullable=False),
    Column("begun_at_s", BigInteger, nullable=False),
    Column("outcome", String(WORD_LENGTH)),
    Column("outcome_at_s", BigInteger),
    Column("error_code", String(ID_LENGTH), nullable=False),
    Column("error_text", Text, nullable=False),
    Index("ix_attempts_action_id", "action_id", "number"),
    Index("ix_attempts_outcome_at_s", "outcome", "outcome_at_s"),
)

preemptions = Table(
    "preemptions",
    metadata,
    Column("id", String(ID_LENGTH), primary_key=True),
    Column("preemptor_lease_id", BigInteger, nullable=False),
    Column("policy", String(WORD_LENGTH), nullable=False),
    Column("advised_only", Boolean, nullable=False),
    Column("opened_at_s", BigInteger, nullable=False),
    Column("closed_at_s", BigInteger),
    Column("fulfilled", Boolean),
    Column("reason_code", String(ID_LENGTH), nullable=False),
    Column("reason_text", Text, nullable=False),
    Column("document", LONG_TEXT, nullable=False),
    Index("ix_preemptions_closed_at_s", "closed_at_s"),
)

host_capacities = Table(
    "host_capacities",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("observed_at_s", BigInteger, nullable=False),
    Column("max_cpu_centi", BigInteger, nullable=False),
    Column("max_memory_kib", BigInteger, nullable=False),
    Column("total_cpu_centi", BigInteger, nullable=False),
    Column("total_memory_kib", BigInteger, nullable=False),
)

# No key to `leases`: the row of a lease is written anew while its reservations stand, and a VM without a row of its own
# may be promised room as well.
reservations = Table(
    "reservations",
    metadata,
    Column("lease_id", BigInteger, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("start_at_s", BigInteger, nullable=False),
    Column("end_at_s", BigInteger),
    Column("firm", Boolean, nullable=False),
    Column("host_ids", LONG_TEXT, nullable=False),
)

# Never more of a kind and a datastore than are learned from.
observed_overheads = Table(
    "observed_overheads",
    metadata,
    Column("number", ROW_NUMBER, primary_key=True),
    Column("kind", String(WORD_LENGTH), nullable=False),
    Column("vm_id", BigInteger, nullable=False),
    Column("datastore_id", BigInteger, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("took_s", BigInteger, nullable=False),
    Column("observed_at_s", BigInteger, nullable=False),
    Index("ix_observed_overheads_kind", "kind", "datastore_id", "number"),
)

# What is known and under way of each host's power; the columns of `PowerSequence`, under the same names.
host_power = Table(
    "host_power",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("host_name", String(ID_LENGTH), nullable=False),
    Column("phase", String(WORD_LENGTH), nullable=False),
    Column("since_s", BigInteger, nullable=False),
    Column("reason_code", String(ID_LENGTH), nullable=False),
    Column("reason_text", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("outcome", String(WORD_LENGTH)),
    Column("outcome_at_s", BigInteger),
    Column("answer_text", Text, nullable=False),
    Column("emptied_vm_ids", LONG_TEXT, nullable=False),
    Column("began_at_s", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("not_before_s", BigInteger, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=false()),
)

# Orders of administrators that no plan has settled yet.
power_orders = Table(
    "power_orders",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("goal", String(WORD_LENGTH), nullable=False),
    Column("ordered_at_s", BigInteger, nullable=False),
)

# What power control remembers of hosts that did not obey; the columns of `PowerStanding`, under the same names.
power_standings = Table(
    "power_standings",
    metadata,
    Column("host_name", String(ID_LENGTH), primary_key=True),
    Column("attempt", String(WORD_LENGTH), primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("not_before_s", BigInteger, nullable=False),
    Column("ordered_at_s", BigInteger),
    Column("why", Text, nullable=False),
)

# What each host did, from when until when (NULL: it lasts); the columns of `HostUseStay`, under the same names.
host_use = Table(
    "host_use",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("since_s", BigInteger, primary_key=True, autoincrement=False),
    Column("until_s", BigInteger),
    Column("host_name", String(ID_LENGTH), nullable=False),
    Column("cluster_name", String(ID_LENGTH), nullable=False),
    Column("use", String(WORD_LENGTH), nullable=False),
    Column("policy", String(WORD_LENGTH), nullable=False),
    Column("load_percent", Integer, nullable=False),
    Index("ix_host_use_until_s", "until_s"),
)

# What is left of rows of `host_use` that were pruned; the columns of `HostUseTotal`, under the same names.
host_use_totals = Table(
    "host_use_totals",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("use", String(WORD_LENGTH), primary_key=True),
    Column("policy", String(WORD_LENGTH), primary_key=True),
    Column("load_percent", Integer, primary_key=True, autoincrement=False),
    Column("host_name", String(ID_LENGTH), nullable=False),
    Column("cluster_name", String(ID_LENGTH), nullable=False),
    Column("stays", BigInteger, nullable=False),
    Column("lasted_s", BigInteger, nullable=False),
    Column("first_s", BigInteger, nullable=False),
    Column("last_s", BigInteger, nullable=False),
)

# What each owner had used when that was measured last; the columns of `OwnerUse`, under the same names.
owner_use = Table(
    "owner_use",
    metadata,
    Column("gid", BigInteger, primary_key=True, autoincrement=False),
    Column("uid", BigInteger, primary_key=True, autoincrement=False),
    Column("group_name", String(ID_LENGTH), nullable=False),
    Column("user_name", String(ID_LENGTH), nullable=False),
    Column("used_cpu_centi_s", BigInteger, nullable=False),
    Column("measured_at_s", BigInteger, nullable=False),
)

# Orders for images on hosts that are not done; the columns of `ImageOrder` and `TransferRecord`, under the same names.
image_transfers = Table(
    "image_transfers",
    metadata,
    Column("id", String(ID_LENGTH), primary_key=True),
    Column("kind", String(WORD_LENGTH), nullable=False),
    Column("image_id", BigInteger, nullable=False),
    Column("host_id", BigInteger, nullable=False),
    Column("host_name", String(ID_LENGTH), nullable=False),
    Column("datastore_id", BigInteger),
    Column("size_mib", BigInteger, nullable=False),
    Column("begin_at_s", BigInteger, nullable=False),
    Column("due_at_s", BigInteger, nullable=False),
    Column("needed_at_s", BigInteger),
    Column("lease_ids", LONG_TEXT, nullable=False),
    Column("reason_code", String(ID_LENGTH), nullable=False),
    Column("reason_text", Text, nullable=False),
    Column("phase", String(WORD_LENGTH), nullable=False),
    Column("since_s", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("not_before_s", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
)

# The images on each host; `read_at_s` is the same in all rows of a host, and a host that holds none has no row.
held_images = Table(
    "held_images",
    metadata,
    Column("host_id", BigInteger, primary_key=True, autoincrement=False),
    Column("image_id", BigInteger, primary_key=True, autoincrement=False),
    Column("size_mib", BigInteger, nullable=False),
    Column("since_s", BigInteger, nullable=False),
    Column("read_at_s", BigInteger, nullable=False),
)

# What an operator switched; one row a switch ("paused"). "power-asked" tells when the energy policy was asked last.
control = Table(
    "control",
    metadata,
    Column("name", String(WORD_LENGTH), primary_key=True),
    Column("switched_on", Boolean, nullable=False),
    Column("changed_at_s", BigInteger, nullable=False),
)

# The ledger of a gateway between zones. A request is read as a whole; what stands beside it is what is looked up by.
gateway_requests = Table(
    "gateway_requests",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("token", String(WORD_LENGTH), nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("state", String(WORD_LENGTH), nullable=False),
    Column("opened_at_s", BigInteger, nullable=False),
    Column("ended_at_s", BigInteger),
    Column("document", LONG_TEXT, nullable=False),
    Index("ix_gateway_requests_token", "token", unique=True),
    Index("ix_gateway_requests_uid", "uid", "number"),
    Index("ix_gateway_requests_state", "state", "number"),
    Index("ix_gateway_requests_opened_at_s", "opened_at_s"),
)

# How far each zone is ahead of its share of requests of a type.
gateway_balances = Table(
    "gateway_balances",
    metadata,
    Column("type", String(WORD_LENGTH), primary_key=True),
    Column("zone", String(ID_LENGTH), primary_key=True),
    Column("ahead", Double, nullable=False),
)

# The last measure of each zone ("measure"), and the shares in force ("allocation", of no zone).
gateway_documents = Table(
    "gateway_documents",
    metadata,
    Column("kind", String(WORD_LENGTH), primary_key=True),
    Column("zone", String(ID_LENGTH), primary_key=True),
    Column("document", LONG_TEXT, nullable=False),
)
