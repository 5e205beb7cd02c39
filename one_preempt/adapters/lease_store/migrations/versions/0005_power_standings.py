"""What power control remembers of hosts that did not obey, and whether a host on its way up was enabled already.

And on MariaDB, room for what is written down of large leases.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is known of failures before: they were forgotten with each restart."""
    op.create_table(
        "power_standings",
        sa.Column("host_name", sa.String(length=255), nullable=False),
        sa.Column("attempt", sa.String(length=64), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("not_before_s", sa.BigInteger(), nullable=False),
        sa.Column("ordered_at_s", sa.BigInteger(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("host_name", "attempt"),
    )
    op.add_column("host_power", sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.false()))
    if op.get_bind().dialect.name in ("mysql", "mariadb"):
        for table, column in (
            ("preemptions", "document"),
            ("reservations", "host_ids"),
            ("host_power", "emptied_vm_ids"),
        ):
            op.alter_column(table, column, type_=LONGTEXT(), existing_type=sa.Text(), existing_nullable=False)
