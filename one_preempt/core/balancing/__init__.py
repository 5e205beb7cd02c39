"""Better places for VMs that run already: even load, or few hosts in use. Advice, one migration at a time."""
