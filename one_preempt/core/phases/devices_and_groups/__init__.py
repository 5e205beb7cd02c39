"""Devices, cores and places beside VM groups at times to come, which the slot table does not count."""
