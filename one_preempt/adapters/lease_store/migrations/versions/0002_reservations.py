"""Room over time: reservations, verdicts on wishes for one, time served, and how long operations took."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Leases known so far asked for nothing of the kind; since when they run is observed anew."""
    # Columns are added in place: to write the table anew would take the members of all leases with it.
    for column in (
        sa.Column("at_once", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("verdict", sa.String(length=64), nullable=False, server_default=sa.text("'none'")),
        sa.Column("verdict_text", sa.Text(), nullable=False, server_default=sa.text("''")),
        sa.Column("served_s", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("run_began_at_s", sa.BigInteger(), nullable=True),
    ):
        op.add_column("leases", column)
    op.create_table(
        "reservations",
        sa.Column("lease_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start_at_s", sa.BigInteger(), nullable=False),
        sa.Column("end_at_s", sa.BigInteger(), nullable=True),
        sa.Column("firm", sa.Boolean(), nullable=False),
        sa.Column("host_ids", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("lease_id", "position"),
    )
    op.create_table(
        "observed_overheads",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("vm_id", sa.BigInteger(), nullable=False),
        sa.Column("datastore_id", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("took_s", sa.BigInteger(), nullable=False),
        sa.Column("observed_at_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index(
        "ix_observed_overheads_kind", "observed_overheads", ["kind", "datastore_id", "number"], unique=False
    )
