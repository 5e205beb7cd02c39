"""The parts of a cycle that carry out what is decided about hosts' power and images, and write down what came of it."""
