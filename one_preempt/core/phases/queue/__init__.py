"""The queue's view of room, what it was promised, and its VMs that are marked to move."""
