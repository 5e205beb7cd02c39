"""Where the power of each host stands, as observed, and hosts that are not on and will be or could be."""
