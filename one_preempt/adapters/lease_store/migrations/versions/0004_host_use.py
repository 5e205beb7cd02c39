"""What hosts do over time, from which energy is counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The history begins now: what hosts did before was not written down."""
    op.create_table(
        "host_use",
        sa.Column("host_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("since_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("until_s", sa.BigInteger(), nullable=True),
        sa.Column("host_name", sa.String(length=255), nullable=False),
        sa.Column("cluster_name", sa.String(length=255), nullable=False),
        sa.Column("use", sa.String(length=64), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("load_percent", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("host_id", "since_s"),
    )
    op.create_index("ix_host_use_until_s", "host_use", ["until_s"])
    op.create_table(
        "host_use_totals",
        sa.Column("host_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("use", sa.String(length=64), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("load_percent", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("host_name", sa.String(length=255), nullable=False),
        sa.Column("cluster_name", sa.String(length=255), nullable=False),
        sa.Column("stays", sa.BigInteger(), nullable=False),
        sa.Column("lasted_s", sa.BigInteger(), nullable=False),
        sa.Column("first_s", sa.BigInteger(), nullable=False),
        sa.Column("last_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("host_id", "use", "policy", "load_percent"),
    )
