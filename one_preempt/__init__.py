"""one_preempt: a lease scheduler for OpenNebula that preempts with known cost."""

__version__ = "0.1.0"
