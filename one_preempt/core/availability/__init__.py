"""Free capacity over time: the slot table and the availability profile (no reservations yet)."""
