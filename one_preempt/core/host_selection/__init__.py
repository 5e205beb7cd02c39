"""Which of the hosts that suit a VM is taken: one policy a file, each a `POLICY`."""
