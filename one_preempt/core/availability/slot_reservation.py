"""A reservation in the slot table: room on rows of hosts that is spoken for between two instants."""

from __future__ import annotations

from msgspec import Struct


class SlotReservation(Struct, frozen=True, order=True):
    """Room for VMs of one lease. Times in seconds since the epoch; `end_s` None = nobody knows the end.

    `host_rows` and `amounts` have one entry a VM: the row of its host, and what it takes of each resource there.
    """

    lease_id: int
    start_s: int
    end_s: int | None
    host_rows: tuple[int, ...] = ()
    amounts: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.end_s is not None and self.end_s <= self.start_s:
            raise ValueError(f"the reservation of lease {self.lease_id} ends before it starts")
        if len(self.host_rows) != len(self.amounts):
            raise ValueError(f"lease {self.lease_id}: {len(self.host_rows)} hosts for {len(self.amounts)} VMs")
