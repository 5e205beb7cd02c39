"""What of image staging has been decided so far in this cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.image_staging.staging_plan import ImageNeed, StagingPlan, staging_plan
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.image_transfer import ImageOrder
from one_preempt.core.model.plan import Plan


class ImageDraft:
    """The needs of those who were promised hosts, the plan of transfers for them, and the orders that are due.

    `needs` are by lease; None: they were not looked for since a promise has changed. `needs_by_stay` are what was found
    for the stay that each lease had then. `up_at_s`: when hosts that are not on can be, by their ids.
    """

    def __init__(self, state: ClusterState, rules: ImageStagingRules, up_at_s: Mapping[int, int]) -> None:
        self.rules = rules
        self._up_at_s = up_at_s
        self.known = state.images
        self.now_s = state.now_s
        self.needs: dict[int, tuple[ImageNeed, ...]] | None = None
        self.needs_by_stay: dict[int, tuple[Stay, tuple[ImageNeed, ...]]] = {}
        self.orders: list[ImageOrder] = []
        self._planned: tuple[dict[int, tuple[ImageNeed, ...]], StagingPlan] | None = None

    def complete(self, plan: Plan) -> Plan:
        """A plan with the orders that are due."""
        if not self.orders:
            return plan
        orders = tuple(self.orders)
        return replace(plan, image_orders=orders) if self.rules.acts else replace(plan, advised_image_orders=orders)

    def promises_changed(self) -> None:
        """Somebody is promised something else than before."""
        self.needs = None

    def plan_of(self, needs: dict[int, tuple[ImageNeed, ...]]) -> StagingPlan:
        """The plan for all that was promised; the same until that changes."""
        if self._planned is None or self._planned[0] is not needs:
            self._planned = needs, self.plan_for([one for of_lease in needs.values() for one in of_lease])
        return self._planned[1]

    def plan_for(self, needs: Sequence[ImageNeed]) -> StagingPlan:
        """The plan for these needs."""
        return staging_plan(needs, self.known, self.rules, self.now_s, self._up_at_s)
