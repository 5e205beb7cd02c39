"""Who would have to leave for stays to come, remembered while nothing changes that it followed from."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.remembered_giving_way import GivingWay
from one_preempt.core.overhead.planning import Leaver


class InTheWay(Struct, frozen=True):
    """What the answer for a stay follows from beside its hosts.

    `own` are all stays of its lease, `there` those who will still be on its hosts, `gone` the ids of those among them
    who are being sent away already; `gone_by` what is known of the VMs that are, by id.
    """

    stay: Stay
    own: tuple[Stay, ...]
    there: tuple[GivingWay, ...]
    gone: frozenset[int]
    gone_by: Mapping[int, object]


class _Known(Struct, frozen=True):
    table: SlotTable
    number: int
    asked: InTheWay
    leavers: tuple[Leaver, ...]


class RememberedLeavers:
    """The last answer for each lease that has a stay to come. Only speed depends on it."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def of(self, table: SlotTable, asked: InTheWay) -> tuple[Leaver, ...] | None:
        """Who was found to have to leave, where that would be found again; None where it has to be looked for.

        `table` says what is firm; the stay has not begun.
        """
        known = self._known.get(asked.stay.lease_id)
        if known is None or known.table is not table or known.asked != asked:
            return None
        return known.leavers if table.is_unchanged(known.number, asked.stay.host_rows) else None

    def keep(self, table: SlotTable, asked: InTheWay, leavers: tuple[Leaver, ...], leases: int) -> None:
        """Remember an answer; of no more leases than twice as many as there are."""
        if len(self._known) > 2 * leases:
            self._known.clear()
        self._known[asked.stay.lease_id] = _Known(table, table.number, asked, leavers)
