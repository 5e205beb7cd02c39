"""Images that reservations need on the hosts that they were promised, and the transfers that bring them there."""
