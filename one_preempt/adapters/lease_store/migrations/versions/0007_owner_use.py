"""What owners have used, for a queue whose order goes by it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing was measured before."""
    op.create_table(
        "owner_use",
        sa.Column("gid", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("uid", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("group_name", sa.String(length=255), nullable=False),
        sa.Column("user_name", sa.String(length=255), nullable=False),
        sa.Column("used_cpu_centi_s", sa.BigInteger(), nullable=False),
        sa.Column("measured_at_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("gid", "uid"),
    )
