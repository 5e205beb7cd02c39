"""One preemption: the question who leaves, whether they can, and the sequence of what is done."""
