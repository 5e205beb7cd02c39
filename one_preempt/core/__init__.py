"""The decision core: pure functions and values. No clock, no randomness, no I/O, no logging."""
