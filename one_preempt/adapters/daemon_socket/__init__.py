"""The socket by which `place`, the hooks and the commands talk to the daemon: lines of JSON, one question a connection."""
