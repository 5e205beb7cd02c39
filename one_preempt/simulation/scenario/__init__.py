"""What is to be simulated, as a file tells it: a trace, or a scenario with its site, recipe, policies and seeds."""
