"""What the administrator chose: the limits and modes under which a decision is made.

The policies themselves (queue order, host selection, preemption) are objects of their own packages; `decide`
takes them in `Policies`. Everything here is data.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from one_preempt.core.model.lease import LeaseType, PreemptionMethod


class Mode(StrEnum):
    """ADVISE decides, logs and acts not; ACT acts."""

    ADVISE = "advise"
    ACT = "act"


class Verification(StrEnum):
    """Which plans are recounted before anything is done: all, those that matter and a sample of the others, or none.

    SAMPLED recounts every plan that preempts or promises room firmly, and now and then another. A daemon recounts all.
    """

    FULL = "full"
    SAMPLED = "sampled"
    NONE = "none"


class PreemptionLimits(Struct, frozen=True):
    """The ceilings that keep preemption civil; zero victims an hour forbids it.

    `minimum_run_time_s`: a VM that runs for less is left alone. `cooldown_s`: a lease that was preempted is
    left alone for that long after it runs again (hysteresis). `attempts`: how often a step is issued before the
    preemption is given up. `victim_retry_s`: for how long a lease that would not leave by a method is not asked by it.
    """

    victims_in_flight: int = 8
    victims_per_hour: int = 60
    minimum_run_time_s: int = 120
    cooldown_s: int = 300
    attempts: int = 3
    victim_retry_s: int = 1800
    preemption_timeout_s: int = 3600


DEFAULT_METHODS: Mapping[LeaseType, tuple[PreemptionMethod, ...]] = {
    LeaseType.BE_CANCELLABLE: (PreemptionMethod.TERMINATE,),
    LeaseType.BE_SUSPENDABLE: (PreemptionMethod.STOP, PreemptionMethod.UNDEPLOY),
    LeaseType.DC_MIGRATABLE: (PreemptionMethod.LIVE_MIGRATE, PreemptionMethod.STOP),
    LeaseType.DC_NON_PREEMPTABLE: (),
}


class VictimRules(Struct, frozen=True):
    """Who may be a victim, and how. `methods`: by lease type, the first that is possible is taken. SUSPEND among them
    counts only with `suspend_in_place`. `least_valuable_first`: nobody of a type leaves as long as those of less
    valuable types are enough.

    `paused_by_owner`: a lease gives way also while its owner has VMs of it paused, on their hosts or off them.

    The other three switches open what is closed as shipped: locked VMs, members of OneFlow services and virtual
    routers are never victims unless the administrator says so.
    """

    methods: Mapping[LeaseType, tuple[PreemptionMethod, ...]] = field(default_factory=lambda: DEFAULT_METHODS)
    service_members: bool = False
    virtual_routers: bool = False
    suspend_in_place: bool = False
    least_valuable_first: bool = False
    paused_by_owner: bool = True


# Calls that are refused are repeated so often at the usual pace, and at this one in the end.
_TRIED_SOON = 3
_LONGEST_PAUSE_S = 600
# Whose hosts are kept is tried at this pace, for a quarter of an hour as shipped: so many times.
_LONGEST_PAUSE_WHILE_KEPT_S = 60
_TRIED_WHILE_KEPT = 18


class EnactmentLimits(Struct, frozen=True):
    """`retry_delay_s`: pause before a refused call is made again. `gang_attempts`: tries before the members of a gang
    that did start are stopped again because one did not."""

    retry_delay_s: int = 15
    gang_attempts: int = 3

    def pause_s(self, attempts: int) -> int:
        """The pause after so many refusals in a row.

        What was refused three times will hardly be taken the next time: from then on the pause is doubled. In between
        it is told why, for a call that is made in each cycle never waits for anything.
        """
        doublings = min(max(0, attempts - _TRIED_SOON + 1), 16)
        return max(self.retry_delay_s, min(self.retry_delay_s << doublings, _LONGEST_PAUSE_S))

    def pause_while_kept_s(self, attempts: int) -> int:
        """The same for a start for which hosts are kept that nobody else has meanwhile."""
        if self.is_tried_in_vain(attempts):
            return self.pause_s(attempts)
        return max(self.retry_delay_s, min(self.pause_s(attempts), _LONGEST_PAUSE_WHILE_KEPT_S))

    def is_tried_in_vain(self, attempts: int) -> bool:
        """After so many refusals in a row no hosts are kept for it any longer."""
        return attempts >= _TRIED_WHILE_KEPT
