"""Job-style: the transfer begins when the reservation starts, as a job stages its files.

A naive baseline of VW07 8.1: it looks at nothing but its own request, and transfers under way share the link equally.
What has no start to wait for begins at once.
"""

from __future__ import annotations

from one_preempt.core.image_staging.equal_sharing import InEqualShares
from one_preempt.core.image_staging.transfer import Transfer


def _begin_ms(one: Transfer) -> int:
    return one.ready_ms if one.deadline_ms is None else one.deadline_ms


POLICY = InEqualShares(
    "job-style", "each begins when its reservation starts; those under way share the link", _begin_ms
)
