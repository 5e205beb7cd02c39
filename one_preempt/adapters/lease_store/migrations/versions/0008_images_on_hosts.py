"""Orders for images that are brought to hosts, and what hosts hold of images."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_LONG_TEXT = sa.Text().with_variant(LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    """Nothing was brought to hosts before."""
    op.create_table(
        "image_transfers",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("image_id", sa.BigInteger(), nullable=False),
        sa.Column("host_id", sa.BigInteger(), nullable=False),
        sa.Column("host_name", sa.String(length=255), nullable=False),
        sa.Column("datastore_id", sa.BigInteger(), nullable=True),
        sa.Column("size_mib", sa.BigInteger(), nullable=False),
        sa.Column("begin_at_s", sa.BigInteger(), nullable=False),
        sa.Column("due_at_s", sa.BigInteger(), nullable=False),
        sa.Column("needed_at_s", sa.BigInteger(), nullable=True),
        sa.Column("lease_ids", _LONG_TEXT, nullable=False),
        sa.Column("reason_code", sa.String(length=255), nullable=False),
        sa.Column("reason_text", sa.Text(), nullable=False),
        sa.Column("phase", sa.String(length=64), nullable=False),
        sa.Column("since_s", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before_s", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "held_images",
        sa.Column("host_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("image_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("size_mib", sa.BigInteger(), nullable=False),
        sa.Column("since_s", sa.BigInteger(), nullable=False),
        sa.Column("read_at_s", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("host_id", "image_id"),
    )
