"""A clock that leaps ahead, or is not oned's time, is not believed at once where what follows could not be undone.

Whoever sets a clock wrong for a minute, by a year say, lets every lease outlive its DURATION. What is stopped or ended
for that waits, and what would be dropped as too old stays, so that an administrator can look at the clock; all else
goes by it at once, for it may be right now.

A clock that was wrong before the daemon began leaps nowhere. oned dates its answers: where its time is another one, one
of the two is wrong, and until they agree nobody is sent out for a START either. Where both have the same clock, oned's
own records tell when that is behind: a machine that lost its time begins in the past. Nothing is ended too early then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.model.plan import Reason
from one_preempt.core.model.time_rules import Overrun
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.policies import Policies

# A clock that goes ahead by less was corrected; by more it was set, or the machine slept unnoticed.
LEAP_S = 600
# For so long nothing is ended that outlives its DURATION by the clock.
DOUBTED_S = 3600
_AT_ODDS = Reason(
    "clock",
    "does not fit; no room is made, because the clocks of the scheduler and of OpenNebula do not agree on the time",
)


class DatedAhead(Struct, frozen=True):
    """A VM of which something is written down, by oned's clock, that is to come in `ahead_s` by this one."""

    vm_id: int
    ahead_s: int

    @property
    def text(self) -> str:
        """What is wrong, for an administrator."""
        return (
            f"by it, what OpenNebula wrote down of VM {self.vm_id} is still to come, in {self.ahead_s} s: "
            "it is behind, or was ahead then"
        )


def dated_ahead(vms: Iterable[VirtualMachine], now_s: int) -> DatedAhead | None:
    """The VM of which something was written down last, where that is to come by a clock by which it is `now_s`."""
    at_s, vm_id = max(((_written_at_s(vm), vm.id) for vm in vms), default=(0, -1))
    return DatedAhead(vm_id, at_s - now_s) if at_s - now_s >= LEAP_S else None


def _written_at_s(vm: VirtualMachine) -> int:
    stay = vm.last_history
    if stay is None:
        return vm.submitted_at_s
    return max(vm.submitted_at_s, stay.start_at_s, stay.running_start_at_s, stay.end_at_s, stay.epilog_end_at_s)


class ClockLeaps:
    """Watches a clock from cycle to cycle."""

    def __init__(self, gained_s: Callable[[], int] | None, policies: Policies) -> None:
        """`gained_s` as `Surroundings.clock_gained_s`."""
        self._gained_s = gained_s
        self._policies = policies
        time = policies.time
        ends = time.overrun in (Overrun.STOP, Overrun.TERMINATE)
        self._doubting = replace(policies, time=replace(time, overrun=Overrun.KEEP)) if ends else policies
        self._at_odds = replace(self._doubting, begins_none_for=_AT_ODDS)
        self._leapt_at_s: int | None = None
        self._ahead_s = 0
        self._untold_s = 0

    def look(self, now_s: int) -> None:
        """See whether the clock, by which it is `now_s`, has leapt since the last look."""
        gained_s = self._gained_s() if self._gained_s is not None else 0
        if gained_s >= LEAP_S:
            self._leapt_at_s, self._untold_s = now_s, self._untold_s + gained_s

    def compare(self, ahead_s: int | None) -> None:
        """Take what oned's answers say: how far ahead of its time this clock is; None: nothing."""
        if ahead_s is not None:
            self._ahead_s = ahead_s if abs(ahead_s) >= LEAP_S else 0

    @property
    def ahead_s(self) -> int:
        """How far ahead of oned's time it is, where they do not agree; below 0 behind it; else 0."""
        return self._ahead_s

    def is_doubted(self, now_s: int) -> bool:
        """It has leapt to this time a short while ago, or is not oned's."""
        has_leapt = self._leapt_at_s is not None and 0 <= now_s - self._leapt_at_s < DOUBTED_S
        return has_leapt or self._ahead_s != 0

    def policies_at(self, now_s: int) -> Policies:
        """The policies by which it is decided then."""
        if self._ahead_s:
            return self._at_odds
        return self._doubting if self.is_doubted(now_s) else self._policies

    def take_untold_s(self) -> int:
        """By how much it has leapt since this was asked last."""
        untold_s, self._untold_s = self._untold_s, 0
        return untold_s
