"""Switching hosts on and off: one file a way of doing it, behind the port `PowerControl`."""
