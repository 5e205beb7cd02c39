"""Which waiting lease is next: one policy a file, each a `POLICY`."""
