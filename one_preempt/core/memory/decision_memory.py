"""What one decision leaves for the next, so that only what has changed since has to be looked at."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from one_preempt.core.alike_hosts import AlikeHosts
from one_preempt.core.availability.timeline import Stay, Timeline
from one_preempt.core.host_power.hosts_to_come import ExpectedHosts
from one_preempt.core.host_power.power_columns import PowerColumns
from one_preempt.core.host_power.power_watch import PowerWatch
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.memory.known_choices import KnownChoices
from one_preempt.core.memory.known_giving_way import KnownGivingWay
from one_preempt.core.memory.known_lacks import KnownLacks
from one_preempt.core.memory.known_leavers import KnownLeavers
from one_preempt.core.memory.known_queue import KnownQueue
from one_preempt.core.memory.known_rooms import KnownRooms
from one_preempt.core.memory.known_searches import KnownSearches
from one_preempt.core.memory.known_wakings import KnownWakings
from one_preempt.core.memory.known_ways_out import KnownWaysOut
from one_preempt.core.memory.lease_concerns import LeaseConcerns
from one_preempt.core.memory.standing_answers import StandingAnswers
from one_preempt.core.memory.stays_ahead import StaysAhead
from one_preempt.core.overhead.learned import Learner


class DecisionMemory(Struct, eq=False):
    """Parts of which each knows for itself what it was made from, and what of it still holds.

    Only speed depends on it: with any memory or none the plan is the same. A decision changes it in place.
    """

    concerns: LeaseConcerns = field(default_factory=LeaseConcerns)
    queue: KnownQueue = field(default_factory=KnownQueue)
    rooms: KnownRooms = field(default_factory=KnownRooms)
    alike_hosts: AlikeHosts = field(default_factory=AlikeHosts)
    ways_out: KnownWaysOut = field(default_factory=KnownWaysOut)
    giving_way: KnownGivingWay = field(default_factory=KnownGivingWay)
    leavers: KnownLeavers = field(default_factory=KnownLeavers)
    choices: KnownChoices = field(default_factory=KnownChoices)
    searches: KnownSearches = field(default_factory=KnownSearches)
    stays_ahead: StaysAhead = field(default_factory=StaysAhead)
    # Who has too few places elsewhere to move aside, and who is suited by all hosts of its stays.
    crowded: StandingAnswers = field(default_factory=StandingAnswers)
    suited: StandingAnswers = field(default_factory=StandingAnswers)
    wakings: KnownWakings = field(default_factory=KnownWakings)
    lacks: KnownLacks = field(default_factory=KnownLacks)
    learner: Learner = field(default_factory=Learner)
    power_columns: PowerColumns = field(default_factory=PowerColumns)
    power_watch: PowerWatch = field(default_factory=PowerWatch)
    expected_hosts: ExpectedHosts | None = None
    matchmaker: Matchmaker | None = None
    timeline: Timeline | None = None
    # Who only waits for the stay that he was promised, by lease, as the decision found it before it came to the queue.
    undisturbed: Mapping[int, Stay] = field(default_factory=dict)

    def take_timeline(self) -> Timeline | None:
        """The timeline, to be changed by a decision, which gives it back when it is complete."""
        timeline, self.timeline = self.timeline, None
        return timeline
