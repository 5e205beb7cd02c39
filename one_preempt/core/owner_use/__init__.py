"""How much of the cloud each owner uses, measured now and then and fading with time."""
