"""Run by alembic: migrate over the connection that `schema.migrate` opened."""

from __future__ import annotations

from alembic import context

from one_preempt.adapters.lease_store.tables import metadata

# Batch mode rewrites a table where SQLite cannot alter it.
context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
