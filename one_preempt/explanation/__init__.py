"""What the scheduler would do and why, in text for people and as JSON."""
