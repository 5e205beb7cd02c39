"""Where the power of each host stands, read off what was observed since, and what of it is to be told.

How one host goes on from phase to phase is in `phase_transitions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.energy.power_rules import PowerRules
from one_preempt.core.host_power.guests import Guests
from one_preempt.core.host_power.host_identity import names_moved
from one_preempt.core.host_power.phase_transitions import (
    FAILED,
    IN_USE,
    POWER_CAME,
    STUCK,
    TAKEN_OVER,
    HostSight,
    by_this_clock,
    entered,
    observed,
)
from one_preempt.core.host_power.power_watch import PowerWatch
from one_preempt.core.model.cluster_state import Discrepancy
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.power import PowerStatus
from one_preempt.core.model.power_sequence import (
    DELETED,
    DELETED_UNPOWERED,
    LOSING_POWER,
    KnownPower,
    PowerPhase,
    PowerReport,
    PowerSequence,
)

_DISABLED = (PowerPhase.DISABLING, PowerPhase.EMPTYING)
# Nothing was done to their power yet, or it was read as on.
_WITH_POWER = (*_DISABLED, PowerPhase.GOING_OFFLINE, PowerPhase.CHECKING, PowerPhase.ENABLING)
ANOTHER_HOST = "another-host"
_TOLD = (TAKEN_OVER, IN_USE, FAILED, POWER_CAME, STUCK, LOSING_POWER)


class ObservedPower(Struct, frozen=True):
    """What is known now, what of it is to be written, and what was not as the ledger had it."""

    known: KnownPower
    changed: tuple[PowerSequence, ...] = ()
    discrepancies: tuple[Discrepancy, ...] = ()


def observe_power(
    snapshot: PoolSnapshot,
    ledger: Ledger,
    reports: Mapping[int, PowerReport],
    rules: PowerRules,
    now_s: int,
    watch: PowerWatch | None = None,
) -> ObservedPower:
    """The sequences of `ledger` as they stand now. `reports` are the last readings of power, by host id.

    `watch` remembers what was seen of the snapshot before.
    """
    watch = PowerWatch() if watch is None else watch
    watch.observe(snapshot, reports, rules)
    look = _Look(snapshot, ledger, reports, rules, watch, now_s)
    sequences = dict(ledger.power_sequences)
    changed: list[PowerSequence] = []
    discrepancies: list[Discrepancy] = []
    for host_id in watch.not_at_rest(ledger.power_sequences, now_s):
        written = ledger.power_sequences[host_id]
        if host_id in snapshot.unreadable_host_ids:
            # It is there, and what is known of it is kept; nothing is done with it meanwhile.
            del sequences[host_id]
            continue
        after, told = look.at(written)
        discrepancies += told
        if after is not written and after != written:
            sequences[host_id] = after
            changed.append(after)
    known = KnownPower(
        sequences=sequences,
        orders=ledger.power_orders,
        capacities=ledger.host_capacities,
        asked_at_s=ledger.power_asked_at_s,
        bounds=watch.bounds,
        readings=reports,
    )
    if not rules.enforced:
        discrepancies += _sleeping_unattended(sequences)
    return ObservedPower(known, tuple(changed), tuple(discrepancies))


class _Look(Struct, frozen=True, eq=False):
    """All that says where the power of a host stands."""

    snapshot: PoolSnapshot
    ledger: Ledger
    reports: Mapping[int, PowerReport]
    rules: PowerRules
    watch: PowerWatch
    now_s: int

    def at(self, written: PowerSequence) -> tuple[PowerSequence, Sequence[Discrepancy]]:
        """The sequence of one host as it stands now, and what of that is to be told."""
        host, now_s, guests = self.snapshot.hosts.get(written.host_id), self.now_s, self.watch.guests
        before = by_this_clock(written, now_s)
        if host is not None and before.host_name != host.name and not before.is_deleted:
            if before.is_ours and names_moved(self.snapshot, self.ledger, before):
                after = _of_another(before, host, now_s)
                return after, [_discrepancy(ANOTHER_HOST, after)]
            before = replace(before, host_name=host.name)
        if before.phase is PowerPhase.AWAKE or (host is not None and _sleeps_on(before, host, guests, self.reports)):
            if before is written:
                self.watch.rest(before)
            return before, ()
        if host is None:
            after = _deleted(before, now_s, "it was deleted in OpenNebula")
            return after, [_discrepancy(after.reason_code, after)] if after.reason_code == DELETED_UNPOWERED else ()
        vm_ids = None if self.snapshot.untraced_vm_ids else guests.on(host)
        return _seen(before, HostSight(host, vm_ids, self.reports.get(host.id)), self.rules, now_s)


def _seen(
    before: PowerSequence, sight: HostSight, rules: PowerRules, now_s: int
) -> tuple[PowerSequence, list[Discrepancy]]:
    """The sequence of a host that was seen, as it goes on from there, and what of that is to be told."""
    after, told = observed(before, sight, rules, now_s), list[Discrepancy]()
    # The phases that follow are entered for the same reason: it is told once.
    is_new = (after.failures, after.reason_text) != (before.failures, before.reason_text)
    if is_new and after.reason_code in _TOLD:
        code = FAILED if after.phase is PowerPhase.FAILED else after.reason_code
        told.append(_discrepancy(code, after, after.rest_told(now_s)))
    if (before.phase, after.phase) == _DISABLED and before.outcome is not Outcome.ACCEPTED:
        told.append(_assumed_ours(before))
    return after, told


def _discrepancy(code: str, sequence: PowerSequence, what_follows: str = "") -> Discrepancy:
    text = "; ".join(filter(None, (sequence.reason_text, what_follows)))
    return Discrepancy(f"power-{code}", f"host {sequence.host_name}: {text}")


def _deleted(before: PowerSequence, now_s: int, why: str) -> PowerSequence:
    """The end of a sequence whose host is gone.

    It is not switched on: whoever deletes it may stand at it, or have given it away.
    """
    if before.phase in _WITH_POWER or (before.phase is PowerPhase.SWITCHING_OFF and not before.was_ordered):
        code, left = DELETED, "on"
    elif before.phase is PowerPhase.ASLEEP:
        code, left = DELETED_UNPOWERED, "off: switch it on by hand before it is used again"
    else:
        code, left = DELETED_UNPOWERED, f"as it is, {before.phase}: see by hand whether it is on"
    text = f"{why}: it is forgotten, and its power is left {left}"
    return entered(before, PowerPhase.AWAKE, now_s, code, text)


def _of_another(before: PowerSequence, host: Host, now_s: int) -> PowerSequence:
    """The same where `host` has its id by now: nothing is done to that one's power, and it has nothing of its past."""
    why = (
        f"OpenNebula has host {host.name} under its id {host.id}, as after its database was restored or made anew (if "
        f"it was renamed together with others, onehost enable {host.id} once it has power)"
    )
    return replace(_deleted(before, now_s, why), failures=0, not_before_s=0)


def _assumed_ours(before: PowerSequence) -> Discrepancy:
    """Nothing in a host's document says by whose hand, or when, it was disabled."""
    text = (
        f"host {before.host_name} is DISABLED, and it is not known whether OpenNebula took our call: it is taken "
        f"to be ours and goes to sleep; if you disabled it, onehost enable {before.host_id} and disable it again"
    )
    return Discrepancy("power-assumed", text)


def _sleeping_unattended(sequences: Mapping[int, PowerSequence]) -> list[Discrepancy]:
    """Nobody wakes what slept when the mode was another one, but an administrator."""
    names = [one.host_name for one in sequences.values() if one.phase is PowerPhase.ASLEEP]
    text = f"{', '.join(names)} sleep, and power.mode is not enforce: one-preempt host on wakes them"
    return [Discrepancy("power-unattended", text)] if names else []


def _sleeps_on(before: PowerSequence, host: Host, guests: Guests, reports: Mapping[int, PowerReport]) -> bool:
    """Nothing was seen that could wake it: so it is with most hosts most of the time."""
    if before.phase is not PowerPhase.ASLEEP or host.state is not HostState.OFFLINE or guests.is_anyone_on(host):
        return False
    report = reports.get(host.id)
    return report is None or report.status is not PowerStatus.ON
