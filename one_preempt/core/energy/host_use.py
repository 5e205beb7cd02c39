"""What hosts do now, as stays: which of them end, and which begin."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from one_preempt.core.model.host import Host
from one_preempt.core.model.power_history import HostUse, HostUseStay
from one_preempt.core.model.power_sequence import KnownPower, PowerPhase, PowerSequence

LOAD_STEP_PERCENT = 10
"""Loads are rounded to whole steps, so that a VM that comes or goes on a large host is no new stay."""

_ON = frozenset({
    PowerPhase.DISABLING, PowerPhase.EMPTYING, PowerPhase.GOING_OFFLINE, PowerPhase.CHECKING,
})  # fmt: skip


def stays_to_write(
    hosts: Mapping[int, Host],
    known: KnownPower,
    policy: str,
    standing: Mapping[int, HostUseStay],
    now_s: int,
    *,
    samples_load: bool,
) -> tuple[HostUseStay, ...]:
    """The stays that end now and those that begin, by host id; `standing` are those that last.

    Counted are hosts that are handed over, and those that are out of use by our hand. One that an administrator or a
    defect keeps out of use is not, for nobody knows whether it has power. A use is entered when its phase was; all else
    changes now. A new load alone ends a stay only with `samples_load`. A host's new name is written into the stay that
    lasts.
    """
    counted = known.bounds.handed_over.union(one.host_id for one in known.sequences.values() if one.is_ours)
    written: list[HostUseStay] = []
    for host_id in sorted(counted.union(standing)):
        before, host = standing.get(host_id), hosts.get(host_id) if host_id in counted else None
        after = _stay(host, known.sequences.get(host_id), policy, before, now_s) if host is not None else None
        if before is None:
            written += [after] if after is not None else []
        elif after is None:
            written.append(replace(before, until_s=max(before.since_s, now_s)))
        elif (after.use, after.policy) != (before.use, before.policy) or (
            samples_load and after.load_percent != before.load_percent
        ):
            # What lasted no time at all is written over by what begins at the same instant.
            written += [replace(before, until_s=after.since_s)] if after.since_s > before.since_s else []
            written.append(after)
        elif (after.host_name, after.cluster_name) != (before.host_name, before.cluster_name):
            # It is the same stay: a boot is not begun anew because its host was renamed.
            written.append(replace(before, host_name=after.host_name, cluster_name=after.cluster_name))
    return tuple(written)


def _stay(
    host: Host, sequence: PowerSequence | None, policy: str, before: HostUseStay | None, now_s: int
) -> HostUseStay | None:
    use = _use(host, sequence, before)
    if use is None:
        return None
    since_s = now_s
    if before is not None:
        entered_s = now_s if sequence is None or use is before.use else sequence.since_s
        since_s = max(before.since_s, min(entered_s, now_s))
    load_percent = load_of(host) if use is HostUse.ON else 0
    return HostUseStay(host.id, host.name, host.cluster_name, use, policy, since_s, None, load_percent)


def _use(host: Host, sequence: PowerSequence | None, before: HostUseStay | None) -> HostUse | None:
    """What the host does; None where it is in nobody's hand but its administrator's, and out of use."""
    if sequence is None or sequence.phase is PowerPhase.AWAKE:
        return HostUse.ON if host.accepts_vms else None
    if sequence.phase in _ON:
        return HostUse.ON
    was_ordered = sequence.was_ordered
    match sequence.phase:
        case PowerPhase.SWITCHING_OFF:
            return HostUse.SHUTTING_DOWN if was_ordered else HostUse.ON
        case PowerPhase.SWITCHING_ON if was_ordered:
            return HostUse.BOOTING
        case PowerPhase.SWITCHING_ON:
            # Nothing was done yet: it is as it was.
            return HostUse.OFF if before is None else before.use
        case PowerPhase.ENABLING:
            return HostUse.BOOTING if sequence.began_at_s else HostUse.ON
        case PowerPhase.FAILED | PowerPhase.CUTTING_POWER:
            return HostUse.FAILED
        case _:
            return HostUse.OFF


def load_of(host: Host) -> int:
    """What oned has given out of the host's CPU in per cent, in whole steps; not more than all of it."""
    step = LOAD_STEP_PERCENT * max(host.total_cpu_centi or host.max_cpu_centi, 1)
    steps = (max(host.cpu_usage_centi, 0) * 100 + step // 2) // step
    return min(steps * LOAD_STEP_PERCENT, 100)
