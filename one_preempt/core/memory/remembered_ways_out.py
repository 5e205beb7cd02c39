"""How leases would leave their hosts for what is firm, remembered for those of which nothing has changed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.infrastructure import Datastore
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.time_rules import Overrun
from one_preempt.core.policies import Policies
from one_preempt.core.suspendable import are_on_shared_storage, ways_out

_PREEMPT = Overrun.PREEMPT


class _Known(Struct, frozen=True):
    lease: Lease
    methods: tuple[PreemptionMethod, ...] | None


class RememberedWaysOut:
    """What `ways_out` says of each lease that was asked about. Only speed depends on it."""

    def __init__(self) -> None:
        self._policies: Policies | None = None
        self._datastores: Mapping[int, Datastore] | None = None
        self._rows: Mapping[int, int] | None = None
        self._known: dict[int, _Known] = {}

    def of(self, state: ClusterState, policies: Policies, lease: Lease) -> tuple[PreemptionMethod, ...] | None:
        """The method for each VM of a lease that gives way to what is firm; None for one that does not."""
        if policies.time.overrun is _PREEMPT:
            # Time alone changes it.
            return ways_out(state, policies, lease)
        datastores, rows = state.snapshot.datastores, state.hosts.index_by_id
        if policies is not self._policies or datastores is not self._datastores or rows is not self._rows:
            self._policies, self._datastores, self._rows = policies, datastores, rows
            self._known.clear()
        if any(record.lease_id == lease.id for record in state.failed_actions):
            # Which methods were tried in vain lately changes with time.
            return ways_out(state, policies, lease)
        known = self._known.get(lease.id)
        if known is not None and known.lease is lease and not state.paused:
            return known.methods
        methods = ways_out(state, policies, lease)
        vms = state.snapshot.vms
        # What a host's own disks have left changes with whatever else is on it.
        if not state.paused and are_on_shared_storage(state.snapshot, [vms[vm_id] for vm_id in lease.vm_ids]):
            if len(self._known) > 2 * len(state.leases):
                self._known.clear()
            self._known[lease.id] = _Known(lease, methods)
        return methods
