"""Ways in: the command line and the daemon."""
