"""Which leases may overtake waiting ones, and which of these are promised a start: one file a policy."""
