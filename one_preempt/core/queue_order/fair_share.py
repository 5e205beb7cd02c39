"""Fair share: whoever has used least of a share is next.

Groups come first, each by what its users have used lately, divided by its share; then the users in a group, each by
what they have used in it. The leases of one owner follow one another as under `user-priority`. So nothing that a user
writes moves anybody else's lease.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from one_preempt.core.model.lease import Lease
from one_preempt.core.model.owner_use import MeasuredUse, OwnerUse, UseRules
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.queue_order.user_priority import POLICY as AMONG_ONES_OWN

ONE_SHARE_MILLI = 1000


class FairShare(Struct, frozen=True):
    """`shares_milli` are the shares of groups by name, or id in digits, in thousandths; that of all others is 1."""

    name: str = "fair-share"
    description: str = (
        "the lease of the group, then of the user, that has used least of its share lately; one's own as user-priority"
    )
    measures: UseRules = UseRules()
    shares_milli: Mapping[str, int] = field(default_factory=dict)

    def key(self, lease: Lease, vms: Sequence[VirtualMachine], use: MeasuredUse) -> tuple[float, ...]:
        """(use of the group by its share, group, use of the user, user, and among an owner's own as user-priority).

        Of groups, or users, that have used the same, all of the one with the lower id come first. A lease whose VMs are
        several owners' stands with the last of them: nobody is next for one VM that he has put into an idle group.
        """
        owners = {(vm.gid, vm.uid, vm.gname) for vm in vms} or {(lease.gid, lease.uid, "")}
        places = [
            (self.use_by_share(use.by_group.get(gid, 0), gid, gname), gid, use.by_owner.get((gid, uid), 0), uid)
            for gid, uid, gname in owners
        ]
        return (*max(places), *AMONG_ONES_OWN.key(lease, vms, use))

    def use_by_share(self, used_cpu_centi_s: int, gid: int, group_name: str) -> int:
        """What a group has used, divided by its share."""
        return used_cpu_centi_s * ONE_SHARE_MILLI // self.share_milli(gid, group_name)

    def share_milli(self, gid: int, group_name: str) -> int:
        """The share of a group, in thousandths."""
        shares = self.shares_milli
        return shares.get(group_name) or shares.get(str(gid), ONE_SHARE_MILLI) if shares else ONE_SHARE_MILLI


class GroupStanding(Struct, frozen=True):
    """How a group stands: what it has used, by its share too, and who in it used that; the next user first.

    `gid` is None where only its name is known, for it has used nothing.
    """

    gid: int | None
    name: str
    share_milli: int
    used_cpu_centi_s: int
    used_by_share: int
    users: tuple[OwnerUse, ...]


def standings(use: MeasuredUse, order: FairShare) -> Iterator[GroupStanding]:
    """Who has used anything, in the order in which their leases are next: as the keys have it, for people."""
    users: dict[int, list[OwnerUse]] = {}
    for one in use.owners:
        users.setdefault(one.gid, []).append(one)
    names = {gid: ones[-1].group_name for gid, ones in users.items()}
    by_share = {gid: order.use_by_share(use.by_group[gid], gid, name) for gid, name in names.items()}
    for gid in sorted(users, key=lambda gid: (by_share[gid], gid)):
        in_turn = sorted(users[gid], key=lambda one: (one.used_cpu_centi_s, one.uid))
        share_milli = order.share_milli(gid, names[gid])
        yield GroupStanding(gid, names[gid], share_milli, use.by_group[gid], by_share[gid], tuple(in_turn))


POLICY = FairShare()
