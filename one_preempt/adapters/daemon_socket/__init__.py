"""Sockets by which `place`, hooks and commands talk to the daemon, and users to the gateway: one question a connection."""
