"""The ports, implemented over the real world: OpenNebula, a database, recordings, power control, images."""
