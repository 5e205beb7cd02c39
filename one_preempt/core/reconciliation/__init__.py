"""The parts of `reconcile`: what was observed, held against the ledger."""
