"""The socket by which `place`, the hooks and the commands talk to the daemon: one question a connection."""
