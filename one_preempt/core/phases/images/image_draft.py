"""What of image staging has been decided so far in this cycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from one_preempt.core.availability.gang_demand import BoolArray
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.image_staging.needs_in_time import NeedsInTime
from one_preempt.core.image_staging.staging_plan import ImageNeed, StagingPlan, StagingState, staging_plan
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.image_transfer import ImageOrder, KnownImages, Place
from one_preempt.core.model.plan import Plan


class ImageDraft:
    """The needs of those who were promised hosts, the plan of transfers for them, and the orders that are due.

    `needs` are by lease; None: they were not looked for yet. `changed` are leases that may have been promised something
    else since. `needs_by_stay` are what was found for the stay that each lease had then. `in_time` has the same needs.
    `in_use_until`: until when images are kept of which VMs were made, once that was asked for.
    `rows_with` are the rows of the hosts that hold all of some images, of which somebody has asked.
    `staging` is how things stand, for a plan of transfers.
    """

    def __init__(self, state: ClusterState, rules: ImageStagingRules, up_at_s: Mapping[int, int]) -> None:
        self.rules = rules
        self.known = state.images
        self.now_s = state.now_s
        self.staging = StagingState(state.images, rules, state.now_s, up_at_s)
        self.needs: dict[int, tuple[ImageNeed, ...]] | None = None
        self.changed: set[int] = set()
        self.needs_by_stay: dict[int, tuple[Stay, tuple[ImageNeed, ...]]] = {}
        self.in_time = NeedsInTime(self.staging)
        self.held_or_coming = _held_or_coming(state.images)
        self.in_use_until: dict[Place, int] | None = None
        self.rows_with: dict[frozenset[int], BoolArray | None] = {}
        self.orders: list[ImageOrder] = []
        self._planned: StagingPlan | None = None

    def complete(self, plan: Plan) -> Plan:
        """A plan with the orders that are due."""
        if not self.orders:
            return plan
        orders = tuple(self.orders)
        return replace(plan, image_orders=orders) if self.rules.acts else replace(plan, advised_image_orders=orders)

    def promises_changed(self, lease_id: int) -> None:
        """A lease may be promised something else than before."""
        self.changed.add(lease_id)

    def look_again(self) -> None:
        """Anybody may be promised something else than before."""
        self.needs, self._planned = None, None
        self.changed.clear()
        self.in_time = NeedsInTime(self.staging)

    def set_needs(self, lease_id: int, needs: tuple[ImageNeed, ...]) -> None:
        """A lease needs these; they are in `needs`, once these were looked for."""
        assert self.needs is not None, "they are looked for first"
        before = self.needs.get(lease_id, ())
        if needs == before:
            return
        self.in_time.replace(before, needs)
        self._planned = None
        if needs:
            self.needs[lease_id] = needs
        else:
            del self.needs[lease_id]

    @property
    def all_needs(self) -> list[ImageNeed]:
        """Those of all leases, once they were looked for since promises have changed."""
        assert self.needs is not None, "they are looked for first"
        assert not self.changed, "they are looked for first"
        return [one for of_lease in self.needs.values() for one in of_lease]

    @property
    def plan(self) -> StagingPlan:
        """The plan for all of these; the same until they change."""
        if self._planned is None:
            self._planned = self.plan_for(self.all_needs)
        return self._planned

    def plan_for(self, needs: Sequence[ImageNeed]) -> StagingPlan:
        """The plan for these needs."""
        return staging_plan(needs, self.staging)


def _held_or_coming(known: KnownImages) -> Mapping[int, Collection[int]]:
    """By image the hosts that have it, or to which it is on its way."""
    found: dict[int, set[int]] = {}
    for host_id, pool in known.held.items():
        for image in pool.images:
            if known.is_held((image.image_id, host_id)):
                found.setdefault(image.image_id, set()).add(host_id)
    for record in known.coming:
        found.setdefault(record.order.image_id, set()).add(record.order.host_id)
    return found
