"""Ways in: the command line, the daemon, the gateway's service, OpenNebula's driver and hook, the demonstration."""
