"""The ledger of a gateway between zones: requests, balances of zones, and what was measured and computed last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_LONG_TEXT = sa.Text().with_variant(LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    """Every database has the tables; only that of a gateway has rows in them."""
    op.create_table(
        "gateway_requests",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("opened_at_s", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_s", sa.BigInteger(), nullable=True),
        sa.Column("document", _LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("ix_gateway_requests_token", "gateway_requests", ["token"], unique=True)
    op.create_index("ix_gateway_requests_uid", "gateway_requests", ["uid", "number"])
    op.create_index("ix_gateway_requests_state", "gateway_requests", ["state", "number"])
    op.create_index("ix_gateway_requests_opened_at_s", "gateway_requests", ["opened_at_s"])
    op.create_table(
        "gateway_balances",
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("zone", sa.String(length=255), nullable=False),
        sa.Column("ahead", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("type", "zone"),
    )
    op.create_table(
        "gateway_documents",
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("zone", sa.String(length=255), nullable=False),
        sa.Column("document", _LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("kind", "zone"),
    )
