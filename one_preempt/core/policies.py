"""The policies and limits under which a decision is made, as one value."""

from __future__ import annotations

from msgspec import Struct, field

from one_preempt.core.backfilling.easy import POLICY as EASY
from one_preempt.core.backfilling.policy import BackfillingPolicy
from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.image_staging.image_staging_rules import ImageStagingRules
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.model.modes_and_limits import EnactmentLimits, Mode, PreemptionLimits, VictimRules
from one_preempt.core.model.plan import Reason
from one_preempt.core.model.recount_rules import RecountRules
from one_preempt.core.model.time_rules import TimeRules
from one_preempt.core.overhead.rates import OverheadRates
from one_preempt.core.preemption.policy import PreemptionPolicy
from one_preempt.core.preemption.problem import SearchLimits
from one_preempt.core.queue_order.order import QueueOrder


class Policies(Struct, frozen=True):
    """Each field answers one question; see its type.

    `begins_none_for`: why no preemption is begun, None where some may be; those under way are carried on all the same.
    `images`: None where none are brought to hosts beforehand.
    """

    preemption: PreemptionPolicy
    queue_order: QueueOrder
    backfilling: BackfillingPolicy = EASY
    mode: Mode = Mode.ADVISE
    begins_none_for: Reason | None = None
    match: MatchOptions = field(default_factory=MatchOptions)
    overhead: OverheadRates = field(default_factory=OverheadRates)
    learns_overheads: bool = True
    tells_owners: bool = True
    limits: PreemptionLimits = field(default_factory=PreemptionLimits)
    search: SearchLimits = field(default_factory=SearchLimits)
    victims: VictimRules = field(default_factory=VictimRules)
    enactment: EnactmentLimits = field(default_factory=EnactmentLimits)
    time: TimeRules = field(default_factory=TimeRules)
    power: PowerRules = field(default_factory=PowerRules)
    images: ImageStagingRules | None = None

    @property
    def recount_rules(self) -> RecountRules:
        """What the recount has to know of them."""
        return RecountRules(self.time, None if self.images is None else self.images.bounds)
