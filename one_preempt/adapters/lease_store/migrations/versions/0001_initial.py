"""The tables of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create everything."""
    op.create_table(
        "control",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("switched_on", sa.Boolean(), nullable=False),
        sa.Column("changed_at_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "host_capacities",
        sa.Column("host_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("observed_at_s", sa.BigInteger(), nullable=False),
        sa.Column("max_cpu_centi", sa.BigInteger(), nullable=False),
        sa.Column("max_memory_kib", sa.BigInteger(), nullable=False),
        sa.Column("total_cpu_centi", sa.BigInteger(), nullable=False),
        sa.Column("total_memory_kib", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("host_id"),
    )
    op.create_table(
        "leases",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("duration_s", sa.BigInteger(), nullable=True),
        sa.Column("start_at_s", sa.BigInteger(), nullable=True),
        sa.Column("start_offset_s", sa.BigInteger(), nullable=True),
        sa.Column("deadline_at_s", sa.BigInteger(), nullable=True),
        sa.Column("max_suspensions", sa.BigInteger(), nullable=True),
        sa.Column("shutdown_ok", sa.Boolean(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("gid", sa.BigInteger(), nullable=False),
        sa.Column("explicit", sa.Boolean(), nullable=False),
        sa.Column("may_preempt", sa.Boolean(), nullable=False),
        sa.Column("admitted_at_s", sa.BigInteger(), nullable=False),
        sa.Column("arrived_at_s", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.String(length=255), nullable=False),
        sa.Column("preemptions", sa.Integer(), nullable=False),
        sa.Column("preempted_by", sa.BigInteger(), nullable=True),
        sa.Column("last_preempted_at_s", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_s", sa.BigInteger(), nullable=True),
        sa.Column("shielded_by_lock", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_leases_ended_at_s", "leases", ["ended_at_s"], unique=False)
    op.create_table(
        "plans",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("made_at_s", sa.BigInteger(), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("wake_at_s", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ix_plans_made_at_s", "plans", ["made_at_s"], unique=False)
    op.create_table(
        "preemptions",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("preemptor_lease_id", sa.BigInteger(), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("advised_only", sa.Boolean(), nullable=False),
        sa.Column("opened_at_s", sa.BigInteger(), nullable=False),
        sa.Column("closed_at_s", sa.BigInteger(), nullable=True),
        sa.Column("fulfilled", sa.Boolean(), nullable=True),
        sa.Column("reason_code", sa.String(length=255), nullable=False),
        sa.Column("reason_text", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_preemptions_closed_at_s", "preemptions", ["closed_at_s"], unique=False)
    op.create_table(
        "transitions",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("vm_id", sa.BigInteger(), nullable=False),
        sa.Column("lease_id", sa.BigInteger(), nullable=False),
        sa.Column("observed_at_s", sa.BigInteger(), nullable=False),
        sa.Column("from_state", sa.String(length=64), nullable=False),
        sa.Column("to_state", sa.String(length=64), nullable=False),
        sa.Column("host_id", sa.BigInteger(), nullable=True),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ix_transitions_observed_at_s", "transitions", ["observed_at_s"], unique=False)
    op.create_index("ix_transitions_vm_id", "transitions", ["vm_id", "number"], unique=False)
    op.create_table(
        "vm_states",
        sa.Column("vm_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("observed_at_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("vm_id"),
    )
    op.create_table(
        "actions",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("plan_number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("vm_id", sa.BigInteger(), nullable=False),
        sa.Column("lease_id", sa.BigInteger(), nullable=False),
        sa.Column("preemption_id", sa.String(length=255), nullable=True),
        sa.Column("host_id", sa.BigInteger(), nullable=True),
        sa.Column("datastore_id", sa.BigInteger(), nullable=True),
        sa.Column("reason_code", sa.String(length=255), nullable=False),
        sa.Column("reason_text", sa.Text(), nullable=False),
        sa.Column("intended_at_s", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=64), nullable=True),
        sa.Column("outcome_at_s", sa.BigInteger(), nullable=True),
        sa.Column("error_code", sa.String(length=255), nullable=False),
        sa.Column("error_text", sa.Text(), nullable=False),
        sa.Column("closed_at_s", sa.BigInteger(), nullable=True),
        sa.Column("succeeded", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["plan_number"], ["plans.number"], ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_actions_closed_at_s", "actions", ["closed_at_s"], unique=False)
    op.create_index("ix_actions_intended_at_s", "actions", ["intended_at_s", "id"], unique=False)
    op.create_index("ix_actions_lease_id", "actions", ["lease_id", "intended_at_s"], unique=False)
    op.create_index("ix_actions_plan_number", "actions", ["plan_number"], unique=False)
    op.create_table(
        "lease_members",
        sa.Column("lease_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("vm_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["lease_id"], ["leases.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("lease_id", "position"),
    )
    op.create_index("ix_lease_members_vm_id", "lease_members", ["vm_id"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("action_id", sa.String(length=255), nullable=False),
        sa.Column("begun_at_s", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(length=64), nullable=True),
        sa.Column("outcome_at_s", sa.BigInteger(), nullable=True),
        sa.Column("error_code", sa.String(length=255), nullable=False),
        sa.Column("error_text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["action_id"], ["actions.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ix_attempts_action_id", "attempts", ["action_id", "number"], unique=False)
    op.create_index("ix_attempts_outcome_at_s", "attempts", ["outcome", "outcome_at_s"], unique=False)
