"""How a host goes to sleep and comes back, step by step, as it is written down.

    AWAKE --> DISABLING --> EMPTYING --> GOING_OFFLINE --> CHECKING --> SWITCHING_OFF --> ASLEEP
      ^           |            |              |               |                             |
      |           +------------+------+-------+---------------+                             v
      +---------------------------- ENABLING <------------------------------------ SWITCHING_ON

What does not come up in time has FAILED, from either of the last two, and is woken again after a while; one that has
power and hangs in its boot is first in CUTTING_POWER, once.
A phase is what was last intended; it is left when its effect is seen. What the phase is holds after any crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from one_preempt.core.model.host import HostCapacity, HostState
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.power import PowerOutcome, PowerStatus
from one_preempt.core.model.written_time import utc_text


class PowerPhase(StrEnum):
    """Where a host stands. In all but AWAKE and FAILED it is by our hand that it is not in use."""

    AWAKE = "awake"
    """In nobody's hand but its administrator's; since when tells how long it has been so."""
    DISABLING = "disabling"
    EMPTYING = "emptying"
    """Disabled; those that are to move away do, and nobody else is on it."""
    GOING_OFFLINE = "going-offline"
    CHECKING = "checking"
    """OFFLINE was seen; an observation begun after that must show it empty still."""
    SWITCHING_OFF = "switching-off"
    ASLEEP = "asleep"
    SWITCHING_ON = "switching-on"
    ENABLING = "enabling"
    """To be enabled, and waited for until it is monitored: after a boot, or because the way to sleep was given up."""
    FAILED = "failed"
    """It did not come up in time, or did not do what its controller said it would."""
    CUTTING_POWER = "cutting-power"
    """It hung in its boot: its power is taken away, and then it is SWITCHING_ON once more."""


ORDERED = "ordered"
"""The `reason_code` of what an administrator began."""

COMING = frozenset({PowerPhase.SWITCHING_ON, PowerPhase.ENABLING})
"""Its capacity comes."""


class PowerStepKind(StrEnum):
    """What is asked: of oned (DISABLE, PUT_OFFLINE, ENABLE) or of the host's power control."""

    DISABLE = "disable"
    PUT_OFFLINE = "put-offline"
    ENABLE = "enable"
    SWITCH_OFF = "switch-off"
    CUT_POWER = "cut-power"
    """Switched off at once, whatever its operating system does: for a host that never came up."""
    SWITCH_ON = "switch-on"
    READ_POWER = "read-power"
    """Changes nothing and is not written down."""

    @property
    def is_for_power_control(self) -> bool:
        """It is not oned that is asked."""
        return self not in (PowerStepKind.DISABLE, PowerStepKind.PUT_OFFLINE, PowerStepKind.ENABLE)

    @property
    def switches(self) -> bool:
        """The host does something else afterwards; READ_POWER only looks."""
        return self is not PowerStepKind.READ_POWER


DELETED = "deleted"
"""The `reason_code` of what OpenNebula has no more, and that had power."""

DELETED_UNPOWERED = "deleted-unpowered"
"""The same of what may have none by our hand: nobody switches it on any more but its administrator."""

LOSING_POWER = "losing-power"
"""Why a host is switched on that has taken the order to switch off, and that somebody has enabled or uses again."""


class PowerSequence(Struct, frozen=True):
    """What is known and under way of one host's power; one for each host that ever had one.

    `since_s` is when the phase was entered, `attempts` how often its call was issued, `outcome` what was answered last
    (None: nothing, or the process died over it). `emptied_vm_ids` are the VMs that are to be moved away.
    `failures` in a row; nothing is tried before `not_before_s`, which an answer may put off. `enabled`: since it was
    woken OpenNebula has accepted to use it, so that OFFLINE is somebody else's hand. Instants in seconds since the
    epoch.
    """

    host_id: int
    host_name: str
    phase: PowerPhase
    since_s: int
    reason_code: str
    reason_text: str
    attempts: int = 0
    outcome: Outcome | None = None
    outcome_at_s: int | None = None
    answer_text: str = ""
    emptied_vm_ids: tuple[int, ...] = ()
    began_at_s: int = 0
    failures: int = 0
    not_before_s: int = 0
    enabled: bool = False

    @property
    def is_coming(self) -> bool:
        """Its waking is under way, or the way back into use."""
        return self.phase in COMING

    @property
    def was_ordered(self) -> bool:
        """The call of its phase may have been carried out, as far as it was answered."""
        return self.attempts > (1 if self.outcome in (Outcome.DROPPED, Outcome.HELD_BACK) else 0)

    @property
    def is_losing_power(self) -> bool:
        """It was told to switch off and is wanted again: it may run still, and nobody knows for how long."""
        return self.phase is PowerPhase.SWITCHING_ON and self.reason_code == LOSING_POWER

    def may_lose_power(self, now_s: int, within_s: int) -> bool:
        """So it is for so many seconds, by a clock that may have been set back a little.

        And at most until it was told to start: that it is once it was seen without power.
        """
        return self.is_losing_power and not self.was_ordered and abs(now_s - self.since_s) <= within_s

    def rests_at(self, now_s: int) -> bool:
        """It is left alone after a failure; what began in the future was written by a clock that was set back since."""
        return self.since_s <= now_s < self.not_before_s

    def rest_told(self, now_s: int) -> str:
        """Until when it is left alone, and after how many failures, for people; '' where it is not."""
        if not (self.failures and self.rests_at(now_s)):
            return ""
        plural = "s" if self.failures > 1 else ""
        return f"it is left alone until {utc_text(self.not_before_s)}, after {self.failures} failure{plural} in a row"

    @property
    def is_deleted(self) -> bool:
        """OpenNebula has it no more; with another database it may have given its id to another host."""
        return self.reason_code in (DELETED, DELETED_UNPOWERED)

    @property
    def is_ours(self) -> bool:
        """By our hand it is not in use: we have to bring it back."""
        return self.phase is not PowerPhase.AWAKE


class HostPowerStep(Struct, frozen=True):
    """One call for a host. Just before it the host must be seen in one of `expected_states`, and without a VM where
    `must_be_empty`; else it changed hands, and nothing is called. Where the host is `at_rest` nobody waits for the
    answer."""

    host_id: int
    host_name: str
    kind: PowerStepKind
    reason_code: str
    reason_text: str
    expected_states: tuple[HostState, ...] = ()
    must_be_empty: bool = False
    at_rest: bool = False

    @property
    def id(self) -> str:
        """Names it in logs."""
        return f"{self.kind}/{self.host_name}"


class PowerGoal(StrEnum):
    """What an administrator wants of a host."""

    ON = "on"
    OFF = "off"


class PowerOrder(Struct, frozen=True):
    """An administrator's order for one host, carried out once in place of the policy's wish."""

    host_id: int
    goal: PowerGoal
    ordered_at_s: int


class PowerReport(Struct, frozen=True):
    """What a host's power control answered. `status` is what was read, None after an order.

    `asked_at_s` is when the question was put: what is read before an order says nothing of its effect.
    """

    host_id: int
    kind: PowerStepKind
    outcome: PowerOutcome
    asked_at_s: int
    status: PowerStatus | None = None


class PowerBounds(Struct, frozen=True):
    """What holds whatever is decided: which hosts may be switched, how many of them stay on, how many boot at once.

    `boots_s`: how long each of these hosts takes to boot, by host id.
    """

    handed_over: frozenset[int] = frozenset()
    floor: int = 0
    most_booting: int = 0
    boots_s: Mapping[int, int] = field(default_factory=dict)

    @property
    def quickest_boot_s(self) -> int:
        """How long the quickest of them takes to boot; 0 where there is none."""
        return min(self.boots_s.values(), default=0)


class KnownPower(Struct, frozen=True):
    """What the decision may know of power, all by host id. `sequences` are as observed now, not as last written.

    `capacities` are the last that were known, for hosts that show none while they sleep. `asked_at_s`: when the
    energy policy was asked its periodic question last. `readings`: the last reading of power of each host.
    """

    sequences: Mapping[int, PowerSequence] = field(default_factory=dict)
    orders: Mapping[int, PowerOrder] = field(default_factory=dict)
    capacities: Mapping[int, HostCapacity] = field(default_factory=dict)
    asked_at_s: int | None = None
    bounds: PowerBounds = PowerBounds()
    readings: Mapping[int, PowerReport] = field(default_factory=dict)


NOTHING_KNOWN = KnownPower()
