"""Starts that oned refused, of VMs to which somebody has seen since: they are tried again at once."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot


def forgiven_starts(
    snapshot: PoolSnapshot, ledger: Ledger, records: Mapping[int, LeaseRecord]
) -> dict[str, ActionRecord]:
    """By id the failed starts of VMs that have another owner or state than when they were seen last.

    In this decision, and in no later one, they count as refused once, and have no long pause before them. `records` are
    those of leases of which anything may have changed, as they are now.
    """
    failed = [one for one in ledger.failed_actions if one.kind is ActionKind.DEPLOY and one.attempts > 1]
    return {one.id: replace(one, attempts=1) for one in failed if _was_seen_to(one, snapshot, ledger, records)}


def _was_seen_to(
    failed: ActionRecord, snapshot: PoolSnapshot, ledger: Ledger, records: Mapping[int, LeaseRecord]
) -> bool:
    vm, state_before = snapshot.vms.get(failed.vm_id), ledger.vm_states.get(failed.vm_id)
    if vm is not None and state_before is not None and vm.state_name != state_before:
        return True
    before, now = ledger.leases.get(failed.lease_id), records.get(failed.lease_id)
    return before is not None and now is not None and (before.uid, before.gid) != (now.uid, now.gid)
