"""What one decision leaves for the next, so that only what has changed since has to be looked at."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from one_preempt.core.alike_hosts import AlikeHosts
from one_preempt.core.availability.timeline import Stay, Timeline
from one_preempt.core.host_power.hosts_to_come import HostsToCome
from one_preempt.core.host_power.power_columns import PowerColumns
from one_preempt.core.host_power.power_watch import PowerWatch
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.memory.lease_concerns import LeaseConcerns
from one_preempt.core.memory.remembered_answers import RememberedAnswers
from one_preempt.core.memory.remembered_choices import RememberedChoices
from one_preempt.core.memory.remembered_giving_way import RememberedGivingWay
from one_preempt.core.memory.remembered_lacks import RememberedLacks
from one_preempt.core.memory.remembered_leavers import RememberedLeavers
from one_preempt.core.memory.remembered_queue import RememberedQueue
from one_preempt.core.memory.remembered_rooms import RememberedRooms
from one_preempt.core.memory.remembered_searches import RememberedSearches
from one_preempt.core.memory.remembered_stays import RememberedStays
from one_preempt.core.memory.remembered_wakings import RememberedWakings
from one_preempt.core.memory.remembered_ways_out import RememberedWaysOut
from one_preempt.core.overhead.learned import Learner


class DecisionMemory(Struct, eq=False):
    """Parts of which each knows for itself what it was made from, and what of it still holds.

    Only speed depends on it: with any memory or none the plan is the same. A decision changes it in place.
    """

    concerns: LeaseConcerns = field(default_factory=LeaseConcerns)
    queue: RememberedQueue = field(default_factory=RememberedQueue)
    rooms: RememberedRooms = field(default_factory=RememberedRooms)
    alike_hosts: AlikeHosts = field(default_factory=AlikeHosts)
    ways_out: RememberedWaysOut = field(default_factory=RememberedWaysOut)
    giving_way: RememberedGivingWay = field(default_factory=RememberedGivingWay)
    leavers: RememberedLeavers = field(default_factory=RememberedLeavers)
    choices: RememberedChoices = field(default_factory=RememberedChoices)
    searches: RememberedSearches = field(default_factory=RememberedSearches)
    stays_ahead: RememberedStays = field(default_factory=RememberedStays)
    # Who has too few places elsewhere to move aside, and who is suited by all hosts of its stays.
    crowded: RememberedAnswers = field(default_factory=RememberedAnswers)
    suited: RememberedAnswers = field(default_factory=RememberedAnswers)
    wakings: RememberedWakings = field(default_factory=RememberedWakings)
    lacks: RememberedLacks = field(default_factory=RememberedLacks)
    learner: Learner = field(default_factory=Learner)
    power_columns: PowerColumns = field(default_factory=PowerColumns)
    power_watch: PowerWatch = field(default_factory=PowerWatch)
    hosts_to_come: HostsToCome | None = None
    matchmaker: Matchmaker | None = None
    timeline: Timeline | None = None
    # Who only waits for the stay that he was promised, by lease, as the decision found it before it came to the queue.
    undisturbed: Mapping[int, Stay] = field(default_factory=dict)

    def take_timeline(self) -> Timeline | None:
        """The timeline, to be changed by a decision, which gives it back when it is complete."""
        timeline, self.timeline = self.timeline, None
        return timeline
