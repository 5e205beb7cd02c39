"""What became of steps that were necessary more than once, for each time and not the latest alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Of the times before, `attempts` has the answers alone: they stay there."""
    op.create_table(
        "past_actions",
        sa.Column("number", _ROW_NUMBER, nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
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
        sa.Column("closed_at_s", sa.BigInteger(), nullable=False),
        sa.Column("succeeded", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ix_past_actions_closed_at_s", "past_actions", ["closed_at_s"])
    op.create_index("ix_past_actions_intended_at_s", "past_actions", ["intended_at_s", "id"])
    op.create_index("ix_past_actions_lease_id", "past_actions", ["lease_id", "intended_at_s"])
