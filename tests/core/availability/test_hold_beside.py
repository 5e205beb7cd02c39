"""What is held beside the stays of a lease takes room like them, and is forgotten with the next observation."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from one_preempt.core.availability.timeline import ObservedRoom, Stay, Timeline

ONE_VM = (100, 1024)
FREE = np.tile(np.array((400, 4096), dtype=np.int64), (3, 1))
RUNS = Stay(1, 0, 900, (0,), (ONE_VM,), firm=True)
PROMISED = Stay(1, 900, 1000, (0,), (ONE_VM,), firm=False, promise=True)


@pytest.mark.parametrize("firm", [True, False])
@pytest.mark.parametrize("known", [(), (RUNS,), (RUNS, PROMISED)])
@pytest.mark.parametrize("alike_slots", [None, 12])
def test_each_takes_its_room_until_it_is_observed_otherwise(
    firm: bool, known: tuple[Stay, ...], alike_slots: int | None
) -> None:
    """Also where several are the same: VMs of one lease that move to one host."""
    if alike_slots is not None:
        known = tuple(replace(one, host_rows=() if one.promise else one.host_rows) for one in known)
    room = ObservedRoom((0, 1, 2), FREE, FREE, {1: known} if known else {}, np.ones(3, dtype=np.bool_))
    timeline, anew = Timeline(room, 0, alike_slots), Timeline(room, 0, alike_slots)
    for _ in range(3):
        timeline.hold_beside(Stay(1, 0, 900, (1,), (ONE_VM,), firm=firm))
    for tables, is_held in (
        ((timeline.all_stays.table, anew.all_stays.table), True),
        ((timeline.firm_stays, anew.firm_stays), firm),
    ):
        told, before = (table.free_during(0, 900).tolist() for table in tables)
        assert told == [before[0], [100, 1024] if is_held else before[1], before[2]]
        assert tables[0].free_during(1000, None).tolist() == tables[1].free_during(1000, None).tolist()
    if timeline.alike is not None and anew.alike is not None:
        assert timeline.alike.profile.free_at(0) == anew.alike.profile.free_at(0) - 3
    timeline.observe(replace(room, number=1, changed=frozenset()), 0, alike_slots)
    assert dict(timeline.stays) == dict(anew.stays)
    for told, before in ((timeline.all_stays.table, anew.all_stays.table), (timeline.firm_stays, anew.firm_stays)):
        assert told.free_during(0, 900).tolist() == before.free_during(0, 900).tolist()
        assert told.reservations() == before.reservations()
