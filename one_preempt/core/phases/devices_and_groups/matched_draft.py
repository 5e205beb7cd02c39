"""What one decision finds out about devices, cores and places beside VM groups, each thing when first asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.matching.room import Room
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.virtual_machine import PciRequest, VirtualMachine
from one_preempt.core.phases.devices_and_groups.matched_guests import MatchedGuests
from one_preempt.core.phases.devices_and_groups.matched_promises import MatchedPromises


class MatchedDraft:
    """Such things of one snapshot, and how much was looked at for whom.

    `promises` is None until somebody asks. `vms` are those of leases that ask for such things, by lease id. By the
    devices that a VM asks for, `rows_with_devices` says of rows of hosts whether these have them. `early` counts the
    reservations that were matched with other hosts early, `by_owner` the VMs put on hosts for each owner, by user id.
    """

    def __init__(self, state: ClusterState, matchmaker: Matchmaker) -> None:
        self.promises: MatchedPromises | None = None
        self.vms: dict[int, Sequence[VirtualMachine]] = {}
        self.rows_with_devices: dict[Sequence[PciRequest], dict[int, bool]] = {}
        self.early = 0
        self._by_owner: dict[int, int] = {}
        self._state = state
        self._matchmaker = matchmaker

    @cached_property
    def hosts_have_devices(self) -> bool:
        """Some host has PCI devices that VMs may ask for."""
        return any(host.pci_devices for host in self._state.snapshot.hosts.values())

    @cached_property
    def guests(self) -> MatchedGuests:
        """Who is on a host and has more of it than CPU and memory."""
        return MatchedGuests(self._state.snapshot.vms.values(), self._state.hosts.index_by_id)

    @cached_property
    def room_then(self) -> Room:
        """What is observed, to look at a time to come in; whoever takes anything from it gives it back at once.

        Who lacks space or addresses now may have them by then, and is looked at for all else.
        """
        return self._matchmaker.served_room()

    @cached_property
    def emptied_room(self) -> Room:
        """What room there would be if nobody had anything; with it as with `room_then`."""
        return self._matchmaker.emptied_room()

    @property
    def by_owner(self) -> Mapping[int, int]:
        """How many VMs were put, or looked at, on hosts as they will be at some instant, by the owner's user id."""
        return self._by_owner

    def count(self, uid: int, places: int) -> None:
        """For this owner's wishes it was so many more."""
        self._by_owner[uid] = self._by_owner.get(uid, 0) + places
