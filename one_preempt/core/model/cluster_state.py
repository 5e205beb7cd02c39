"""The cluster as the decision sees it: the snapshot, interpreted with the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, count
from operator import is_not

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from one_preempt.core.model.host import Host, lasting_of
from one_preempt.core.model.image_transfer import NO_IMAGES_KNOWN, KnownImages
from one_preempt.core.model.lease import Lease
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, OpenPreemption
from one_preempt.core.model.observed_overhead import ObservedOverhead
from one_preempt.core.model.owner_use import NOTHING_MEASURED, MeasuredUse, Occupants
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.power_sequence import NOTHING_KNOWN, KnownPower
from one_preempt.core.model.reservation import Reservation

IntArray = npt.NDArray[np.int64]


class HostTable(Struct, frozen=True):
    """Hosts in ascending id as columns: `free` and `capacity` have shape (hosts, 2): CPU in hundredths, MiB.

    The columns are not to be written to: tables of following cycles share them. `hosts` are the rows' hosts. A table
    that was made from an earlier one, that of the `mark` `made_from`, has other hosts than that in the rows `renewed`;
    in those that `turned` they are others not by their load alone.
    """

    ids: IntArray
    free: IntArray
    capacity: IntArray
    accepts_vms: npt.NDArray[np.bool_]
    index_by_id: Mapping[int, int]
    hosts: Sequence[Host] = ()
    made_from: object = None
    renewed: Sequence[int] = ()
    turned: Sequence[int] = ()
    mark: object = field(default_factory=object)

    def rows_since(self, before: HostTable) -> list[int]:
        """The rows that have other hosts than in an earlier table of as many."""
        if self.made_from is before.mark:
            return list(self.renewed)
        return list(compress(count(), map(is_not, before.hosts, self.hosts)))

    def turned_since(self, before: HostTable) -> list[int]:
        """Those of them of whose hosts more than the load has changed."""
        if self.made_from is before.mark:
            return list(self.turned)
        rows, was, now = self.rows_since(before), before.hosts, self.hosts
        return [row for row in rows if lasting_of(was[row]) != lasting_of(now[row])]


class Discrepancy(Struct, frozen=True):
    """Something that was not as the ledger had it, for the log: a code and one sentence."""

    code: str
    text: str
    vm_id: int | None = None


class ClusterState(Struct, frozen=True):
    """All that `decide` may know. `leases` by lease id; `lease_of_vm` maps each VM to its lease.

    `records` are the leases' records as they are to be written; of the leases `unsettled_lease_ids` another thing may
    be to be said next time, though nothing of them changes. `half_seen_leases` have a member that exists and could not
    be read: nothing is decided about them now. `actions` are open: intended, or issued and their effect not observed
    yet. `failed_actions` were closed as failed inside the retry window, newest last. `reservations` are those of each
    lease in the order of time. `images` is what is known of images on hosts, nothing where none are staged.

    `changed_lease_ids` are the leases that came, went, or are another object than in the state of the cycle before, and
    those whose reservations are; all others are the very objects of that state, and so are their VMs. None: not known.

    `use` is what owners had used when that was measured last, where the queue's order goes by it; `occupants` are then
    who is on a host, to measure it by next time.

    `mistaken_lease_ids` belonged to other VMs until now: what was decided about them does not concern those of today.
    """

    now_s: int
    snapshot: PoolSnapshot
    hosts: HostTable
    leases: Mapping[int, Lease]
    lease_of_vm: Mapping[int, int]
    half_seen_leases: frozenset[int] = frozenset()
    preemptions: tuple[OpenPreemption, ...] = ()
    actions: Mapping[str, ActionRecord] = field(default_factory=dict)
    failed_actions: tuple[ActionRecord, ...] = ()
    victims_last_hour: tuple[int, ...] = ()
    paused: bool = False
    reservations: Mapping[int, tuple[Reservation, ...]] = field(default_factory=dict)
    observed_overheads: tuple[ObservedOverhead, ...] = ()
    records: Mapping[int, LeaseRecord] = field(default_factory=dict)
    unsettled_lease_ids: frozenset[int] = frozenset()
    discrepancies: tuple[Discrepancy, ...] = ()
    power: KnownPower = NOTHING_KNOWN
    images: KnownImages = NO_IMAGES_KNOWN
    changed_lease_ids: frozenset[int] | None = None
    use: MeasuredUse = NOTHING_MEASURED
    occupants: Occupants | None = None
    mistaken_lease_ids: frozenset[int] = frozenset()
