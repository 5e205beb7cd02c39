"""The parts of a cycle that carry out what is decided, and write down what came of it."""
