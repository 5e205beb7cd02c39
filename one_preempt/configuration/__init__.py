"""The configuration: what it may say, what is wrong with it, and the values that the core takes of it."""
