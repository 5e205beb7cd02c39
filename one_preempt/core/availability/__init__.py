"""Free capacity over time: the profile of what is alike, the slot table of hosts that differ, lanes for operations."""
