"""Clouds that exist only in memory: what the scheduler is judged on."""
