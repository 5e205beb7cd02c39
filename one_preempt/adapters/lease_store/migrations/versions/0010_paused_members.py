"""Which VMs of a lease their owner has paused, so that they stay so when the lease was sent out and returns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import LONGTEXT

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """It is observed anew of leases that are on their hosts; of those that are out all VMs ran, for none else was."""
    # Added in place: to write the table anew would take the members of all leases with it.
    op.add_column("leases", sa.Column("paused_vm_ids", sa.Text().with_variant(LONGTEXT(), "mysql", "mariadb")))
