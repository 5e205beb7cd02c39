"""`python -m one_preempt`: the command `one-preempt`, for where its script is not on the path."""

from __future__ import annotations

from one_preempt.entrypoints.cli import main

if __name__ == "__main__":
    main()
