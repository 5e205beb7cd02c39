"""`one-preempt-optimize CLUSTER_ID`: migrations that balance or pack a cluster, as advice for OpenNebula's DRS.

Leases stay where they are: the daemon alone moves them.
"""

from __future__ import annotations

import sys
from typing import BinaryIO

from one_preempt.adapters.driver.plan_document import PLACEMENT_PLAN, plan_document
from one_preempt.entrypoints.driver.driver_process import Messages, run


def main() -> None:
    """Print a plan for the cluster named on the command line."""
    given = sys.argv[1:]
    cluster_id = int(given[0]) if len(given) == 1 and given[0].isascii() and given[0].isdecimal() else None

    def decide(document: BinaryIO, messages: Messages) -> str:
        if cluster_id is None:
            messages.error("one-preempt-optimize takes one argument, the number of a cluster")
            return plan_document(PLACEMENT_PLAN)
        from one_preempt.entrypoints.driver.optimizing import optimize_cluster

        return optimize_cluster(cluster_id, document, messages)

    run(PLACEMENT_PLAN if cluster_id is None else cluster_id, decide)


if __name__ == "__main__":
    main()
