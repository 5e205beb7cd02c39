"""`one-preempt-place` and `one-preempt-optimize`: what OpenNebula 7.x starts as its scheduler driver."""
