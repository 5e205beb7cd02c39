"""What administrators see and say of the power of hosts: where each stands, and why an order cannot be carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

from msgspec import Struct, field

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.lease_store.named_database import DatabaseNotMade
from one_preempt.composition import open_made_store
from one_preempt.configuration.chosen_policies import power_rules
from one_preempt.configuration.power_control_settings import Method
from one_preempt.configuration.settings import Settings
from one_preempt.core.energy.bridges import bridge_hosts
from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.host_power.phase_transitions import DONE
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.host_name import HOST_NAME_HINT
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.power_sequence import (
    COMING,
    DELETED_UNPOWERED,
    PowerGoal,
    PowerOrder,
    PowerPhase,
    PowerSequence,
)
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding
from one_preempt.core.model.written_time import utc_text
from one_preempt.explanation.explain import JsonObject, printable

ON = "on"
NOT_OURS = "not ours"
LISTED_VMS = 5
LONGEST_REASON = 300
_PAUSED = {
    PowerAttempt.LOGIN: "its power control is not asked",
    PowerAttempt.ON: "it is not told to start",
    PowerAttempt.OFF: "it is not told to stop",
    PowerAttempt.BOOT: "it is not told to start",
}
_GOES_TO_SLEEP = (PowerPhase.DISABLING, PowerPhase.EMPTYING, PowerPhase.GOING_OFFLINE, PowerPhase.CHECKING)
_OFF = (PowerPhase.SWITCHING_OFF, PowerPhase.ASLEEP)
_COMES = COMING | {PowerPhase.CUTTING_POWER}


class PowerView(Struct, frozen=True):
    """What is known at `now_s` of the power of all hosts, by host id; nothing where no database was made yet.

    `standings` are what power control remembers of hosts that did not obey, whatever became of the hosts; it holds no
    pause for longer than `longest_pause_s`.
    """

    rules: PowerRules
    handed_over: frozenset[int] = frozenset()
    sequences: Mapping[int, PowerSequence] = field(default_factory=dict)
    orders: Mapping[int, PowerOrder] = field(default_factory=dict)
    paused: bool = False
    standings: tuple[PowerStanding, ...] = ()
    now_s: int = 0
    longest_pause_s: int = 0

    @property
    def concerns_anybody(self) -> bool:
        """Is there a host that may be switched, or was?"""
        return bool(self.handed_over or self.sequences)

    def sequence_of(self, host: Host) -> PowerSequence | None:
        """Its own one, and not that of a host which OpenNebula had under its id before."""
        sequence = self.sequences.get(host.id)
        return None if sequence is not None and sequence.is_deleted else sequence

    def document(self, host: Host) -> JsonObject | None:
        """The power of one host; None where it was never ours to switch."""
        sequence, order = self.sequence_of(host), self.orders.get(host.id)
        if sequence is None and order is None and host.id not in self.handed_over:
            return None
        return {
            "handed_over": host.id in self.handed_over,
            "phase": (PowerPhase.AWAKE if sequence is None else sequence.phase).value,
            "since": None if sequence is None else sequence.since_s,
            "reason_code": "" if sequence is None else sequence.reason_code,
            "reason": "" if sequence is None else sequence.reason_text,
            "answer": "" if sequence is None else sequence.answer_text,
            "failures": 0 if sequence is None else sequence.failures,
            "left_alone_until": sequence.not_before_s if sequence and sequence.rests_at(self.now_s) else None,
            "ordered": None if order is None else order.goal.value,
            "power_control_pauses": [
                {"attempt": one.attempt.value, "failures": one.failures, "until": one.not_before_s, "why": one.why}
                for one in self.pauses(host)
            ],
        }

    def pauses(self, host: Host) -> list[PowerStanding]:
        """What power control does not try again yet at a host."""
        pausing = (one for one in self.standings if 0 < one.not_before_s - self.now_s <= self.longest_pause_s)
        return [one for one in pausing if one.host_name == host.name]

    def left_unpowered(self, hosts: Iterable[Host]) -> list[PowerSequence]:
        """What was deleted and may have no power by our hand, but for what `hosts` have again.

        That is in use, or was since: only such a host has a sequence of its own.
        """
        back = {host.name for host in hosts if host.accepts_vms or self.sequence_of(host) is not None}
        deleted = (one for one in self.sequences.values() if one.reason_code == DELETED_UNPOWERED)
        return [one for one in deleted if one.host_name not in back]

    def is_left_alone(self, host: Host) -> bool:
        """It did not obey, and is not told again for a while."""
        sequence = self.sequences.get(host.id)
        rests = sequence is not None and sequence.failures > 0 and sequence.rests_at(self.now_s)
        return rests or bool(self.pauses(host))

    def words(self, host: Host, *, whole: bool = False) -> tuple[str, str]:
        """The power of one host and why, for people; a long reason is cut, and says where it is `whole`."""
        sequence, order = self.sequence_of(host), self.orders.get(host.id)
        ordered = [f"ordered {order.goal.value}, waits for the daemon"] if order is not None else []
        awake = ON if host.accepts_vms else NOT_OURS
        if sequence is None or (sequence.phase is PowerPhase.AWAKE and awake == NOT_OURS):
            # Why and since when it was on by our hand says nothing of what an administrator did with it since.
            power = awake if sequence is not None or host.id in self.handed_over else ""
            return power, reason_shown([*ordered, *self._pauses(host)], host.id, whole=whole)
        phase = awake if sequence.phase is PowerPhase.AWAKE else sequence.phase.value
        answer = sequence.answer_text if sequence.is_ours else ""
        why = [sequence.reason_text, sequence.rest_told(self.now_s), answer, *ordered, *self._pauses(host)]
        ahead = " (the clock was set back since)" if sequence.since_s > self.now_s else ""
        return f"{phase} since {utc_text(sequence.since_s)}{ahead}", reason_shown(why, host.id, whole=whole)

    def _pauses(self, host: Host) -> list[str]:
        return [
            f"{_PAUSED[one.attempt]} until {utc_text(one.not_before_s)}, "
            f"after {one.failures} failure{'s' if one.failures > 1 else ''} in a row: {one.why}"
            for one in self.pauses(host)
        ]


def reason_shown(parts: Iterable[str], host_id: int, *, whole: bool = False) -> str:
    """A reason of several parts on one line: what a power controller answers may be thousands of characters long."""
    text = "; ".join(filter(None, parts))
    if whole or len(text) <= LONGEST_REASON:
        return printable(text, len(text))
    return f"{printable(text, LONGEST_REASON)} (all of it: one-preempt host list {host_id})"


def power_view(settings: Settings, hosts: Mapping[int, Host]) -> PowerView:
    """What the database and the configuration say of the power of `hosts`."""
    rules = power_rules(settings.power)
    handed_over = frozenset(host.id for host in hosts.values() if rules.is_handed_over(host))
    try:
        with closing(open_made_store(settings)) as store:
            ledger, standings, now_s = store.load(SystemClock().now_s()), store.power_standings(), SystemClock().now_s()
    except DatabaseNotMade:
        return PowerView(rules, handed_over)
    sequences, orders = ledger.power_sequences, ledger.power_orders
    longest_s = settings.power.control.patience.most_s
    return PowerView(rules, handed_over, sequences, orders, ledger.paused, tuple(standings), now_s, longest_s)


def method_of(settings: Settings, host: Host) -> Method:
    """How this host is switched."""
    return settings.power.control.method_of(host.name)


def fulfilled(view: PowerView, host: Host, goal: PowerGoal) -> bool:
    """Is it so already, or on its way there?"""
    sequence = view.sequences.get(host.id)
    phase = PowerPhase.AWAKE if sequence is None else sequence.phase
    if goal is PowerGoal.ON:
        return phase in _COMES or (phase is PowerPhase.AWAKE and host.accepts_vms)
    return phase not in _COMES and phase not in (PowerPhase.AWAKE, PowerPhase.FAILED)


def was_on_since(view: PowerView, host_id: int, order: PowerOrder) -> bool:
    """It came up after an order to start, and has gone on to sleep again since: only what is awake is disabled."""
    sequence = view.sequences.get(host_id)
    if order.goal is not PowerGoal.ON or sequence is None or sequence.since_s < order.ordered_at_s:
        return False
    # What fails to boot is asleep again after its pause, and what does not shut down is told so again.
    went_off = sequence.phase in _OFF and not sequence.failures and sequence.reason_code != DONE
    return went_off or sequence.phase in _GOES_TO_SLEEP


def refusal(settings: Settings, view: PowerView, host: Host, goal: PowerGoal, now_s: int) -> str:
    """Why the daemon would not carry out an order, with the mend; '' where nothing stands against it.

    What sleeps by our hand is woken under every mode, at every hour, and where its pattern has left power.hosts.
    """
    sequence = view.sequences.get(host.id)
    is_ours = sequence is not None and sequence.is_ours
    if view.paused:
        return "power actions are paused: one-preempt resume"
    if not (goal is PowerGoal.ON and is_ours) and (why := _refusal_by_rules(view, host, now_s)):
        return why
    if method_of(settings, host) == "none":
        return "nothing is configured that could switch it: see power.control.method"
    if not host.accepts_vms and not is_ours:
        return _not_ours(host)
    return _refusal_of_sleep(view, host, sequence, now_s) if goal is PowerGoal.OFF else ""


def _refusal_by_rules(view: PowerView, host: Host, now_s: int) -> str:
    rules = view.rules
    if not rules.enforced:
        mend = "write power.mode: enforce, and restart the daemon"
        return f"power.mode is {rules.mode.value}: nothing is switched; {mend}"
    if host.id not in view.handed_over:
        return _why_not_handed_over(rules, host)
    if rules.is_quiet(now_s):
        return "these are quiet hours: see power.quiet_hours"
    return ""


def _why_not_handed_over(rules: PowerRules, host: Host) -> str:
    if rules.names(host):
        return f"its name cannot be used for power control; a name may have {HOST_NAME_HINT}"
    return "it is not handed over: add its name, or a pattern of it, to power.hosts"


def _refusal_of_sleep(view: PowerView, host: Host, sequence: PowerSequence | None, now_s: int) -> str:
    rules = view.rules
    if host.vm_ids:
        return f"{_vms_on(host)}: migrate them, or wait for their end"
    if sequence is None:
        return ""
    if sequence.phase in _COMES:
        return f"it is on its way up: {what_to_do(sequence, host)}"
    if sequence.phase is PowerPhase.FAILED:
        return f"{reason_shown([sequence.reason_text], host.id)}: {what_to_do(sequence, host)}"
    on_until_s = max(sequence.since_s + rules.least_on_s, sequence.not_before_s)
    if sequence.since_s <= now_s < on_until_s:
        return f"it stays on until {utc_text(on_until_s)}: see power.least_on_s and what happened to it before"
    return ""


def what_to_do(sequence: PowerSequence, host: Host) -> str:
    """What an administrator can do about a host that is neither in use nor asleep; '' where it is one of these."""
    match sequence.phase:
        case PowerPhase.AWAKE | PowerPhase.ASLEEP:
            return ""
        case PowerPhase.EMPTYING if host.vm_ids:
            return f"{_vms_on(host)}: migrate them, or wait; after power.emptying_timeout_s it is used again"
        case PowerPhase.SWITCHING_OFF if sequence.failures:
            return (
                f"switch it off by its controller, which is seen; or when it is mended, to try at once: one-preempt "
                f"host on {host.id}, and host off once it is on"
            )
        case PowerPhase.SWITCHING_ON | PowerPhase.ENABLING | PowerPhase.CUTTING_POWER:
            return f"wait until it is on; to keep it out of use, onehost disable {host.id}"
        case PowerPhase.FAILED:
            return f"when it is mended, one-preempt host on {host.id}; to keep it out of use, onehost disable {host.id}"
        case _:
            return f"wait; if it stays so, see the daemon's log; one-preempt host on {host.id} takes it back into use"


def floor_refusal(view: PowerView, hosts: Mapping[int, Host], off: Sequence[Host]) -> str:
    """Why so many cannot be switched off at once, '' where they can."""
    on = sum(_is_on(view, host) for host_id, host in hosts.items() if host_id in view.handed_over)
    if on - len(off) >= view.rules.floor:
        return ""
    return f"{on} of the hosts handed over are on, and power.floor keeps {view.rules.floor} of them so"


def why_to_nothing(view: PowerView, snapshot: PoolSnapshot, host_id: int, order: PowerOrder) -> str:
    """Why an order that the daemon has settled did not bring the host where it wants it, as far as it is seen now."""
    host, sequence = snapshot.hosts.get(host_id), view.sequences.get(host_id)
    if host is None:
        return "it does not exist in OpenNebula any more"
    rest = "" if sequence is None else sequence.rest_told(view.now_s)
    if sequence is not None and sequence.is_ours and sequence.phase is not PowerPhase.ASLEEP:
        advice = (
            what_to_do(sequence, host) if order.goal is PowerGoal.OFF or sequence.phase is PowerPhase.FAILED else ""
        )
        return "; ".join(filter(None, (sequence.reason_text, rest, sequence.answer_text, advice)))
    if sequence is not None and not sequence.is_ours and sequence.since_s >= order.ordered_at_s:
        return "; ".join(filter(None, (sequence.reason_text, rest)))
    if not host.accepts_vms and (sequence is None or not sequence.is_ours):
        return _not_ours(host)
    if order.goal is PowerGoal.OFF:
        if host.vm_ids:
            return f"{_vms_on(host)}: migrate them, or wait for their end"
        if host.id not in view.handed_over:
            return _why_not_handed_over(view.rules, host)
        if host.name in bridge_hosts(snapshot.datastores):
            return "OpenNebula reaches a datastore through it: BRIDGE_LIST or REPLICA_HOST names it"
        if why := floor_refusal(view, snapshot.hosts, [host]):
            return why
    return "what stood against it is over, or only the daemon saw it: order it again, or look into the daemon's log"


def _not_ours(host: Host) -> str:
    text = f"it is {host.state.name}, and not by this scheduler"
    if host.state in (HostState.DISABLED, HostState.OFFLINE):
        return f"{text}: onehost enable {host.id}"
    return f"{text}: see whether it has power, and what onehost show {host.id} says"


def _vms_on(host: Host) -> str:
    named = ", ".join(map(str, host.vm_ids[:LISTED_VMS])) + (", ..." if len(host.vm_ids) > LISTED_VMS else "")
    return f"VMs are on it ({named})"


def _is_on(view: PowerView, host: Host) -> bool:
    sequence = view.sequences.get(host.id)
    return host.accepts_vms and (sequence is None or not sequence.is_ours)
