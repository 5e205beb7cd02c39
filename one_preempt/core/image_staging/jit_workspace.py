"""JIT for workspaces: all transfers of a reservation begin so long before its start as they take together.

The other reading of VW07's JIT, which estimates "the time required to transfer the image" for a workspace: of one that
has several nodes, `jit` counts a single transfer, this one all of them. Otherwise a naive baseline as that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from one_preempt.core.image_staging.equal_sharing import shared_equally
from one_preempt.core.image_staging.link import Link
from one_preempt.core.image_staging.transfer import StagedTransfer, Transfer


class JustInTimeForWorkspaces(Struct, frozen=True):
    """What has no start to wait for begins at once."""

    name: str = "JIT-workspace"
    description: str = "all of a reservation begin together, just in time on an idle link; those under way share it"
    plans_slots: bool = False
    keeps_deadlines: bool = False

    def stage(self, transfers: Sequence[Transfer], link: Link) -> tuple[StagedTransfer, ...]:
        """Each reservation by itself."""
        together_ms: dict[int, int] = defaultdict(int)
        for one in transfers:
            together_ms[one.owner] += one.duration_ms

        def begin_ms(one: Transfer) -> int:
            return one.ready_ms if one.deadline_ms is None else one.deadline_ms - together_ms[one.owner]

        return shared_equally(transfers, link, begin_ms)


POLICY = JustInTimeForWorkspaces()
