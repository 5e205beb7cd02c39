"""The power of hosts: which are asleep by our hand or on their way, and what administrators ordered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No host was ever switched off by us so far."""
    op.create_table(
        "host_power",
        sa.Column("host_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("host_name", sa.String(length=255), nullable=False),
        sa.Column("phase", sa.String(length=64), nullable=False),
        sa.Column("since_s", sa.BigInteger(), nullable=False),
        sa.Column("reason_code", sa.String(length=255), nullable=False),
        sa.Column("reason_text", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=64), nullable=True),
        sa.Column("outcome_at_s", sa.BigInteger(), nullable=True),
        sa.Column("answer_text", sa.Text(), nullable=False),
        sa.Column("emptied_vm_ids", sa.Text(), nullable=False),
        sa.Column("began_at_s", sa.BigInteger(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("not_before_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("host_id"),
    )
    op.create_table(
        "power_orders",
        sa.Column("host_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("goal", sa.String(length=64), nullable=False),
        sa.Column("ordered_at_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("host_id"),
    )
