"""From what a simulation leaves to figures: pure functions of its records and of what was seen over time."""
