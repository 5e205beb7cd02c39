"""OpenNebula in memory: states, rights, accounting and drivers of one zone over virtual time."""
