"""How `place`, hooks and commands talk to the daemon, and users to the gateway: a socket, one question a connection."""
