"""What would be free if some of it were not reserved is what is free once it was taken back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.availability.slot_reservation import SlotReservation
from one_preempt.core.availability.slot_table import SlotTable
from one_preempt.core.availability.timeline import ObservedRoom, Stay, Timeline

HOSTS = 14
LAST_S = 30

spans = st.tuples(st.integers(0, LAST_S), st.one_of(st.none(), st.integers(1, 10))).map(
    lambda drawn: (drawn[0], None if drawn[1] is None else drawn[0] + drawn[1])
)
several_rows = st.one_of(st.just(tuple(range(12))), st.sets(st.integers(0, HOSTS - 1), min_size=1).map(tuple))
questions = st.tuples(spans, st.lists(st.integers(0, 5), max_size=4, unique=True))


def reserved(lease_id: int, span: tuple[int, int | None], rows: tuple[int, ...]) -> SlotReservation:
    return SlotReservation(lease_id, *span, rows, ((1, 10),) * len(rows))


@given(st.lists(st.tuples(spans, several_rows), max_size=6), st.lists(questions, max_size=5), st.data())
def test_nothing_of_it_is_seen_and_all_of_it_is_still_there(
    drawn: list[tuple[tuple[int, int | None], tuple[int, ...]]],
    asked: list[tuple[tuple[int, int | None], list[int]]],
    data: st.DataObject,
) -> None:
    table = SlotTable(np.full((HOSTS, 2), 20, dtype=np.int64), 0)
    for lease_id, (span, rows) in enumerate(drawn):
        table.reserve(reserved(lease_id, span, rows))
    for number, (span, lease_ids) in enumerate(asked):
        aside = tuple(one for lease_id in lease_ids for one in table.reservations_of(lease_id))
        anew = SlotTable(np.full((HOSTS, 2), 20, dtype=np.int64), table.since_s)
        for one in (one for known in table.reservations().values() for one in known):
            if one not in aside:
                anew.reserve(one)
        assert table.free_during(*span, aside).tolist() == anew.free_during(*span).tolist()
        assert table.free_on((3, 0), *span, aside).tolist() == anew.free_on((3, 0), *span).tolist()
        match data.draw(st.sampled_from(["nothing", "another", "less", "later"])):
            case "another":
                table.reserve(reserved(100 + number, data.draw(spans), data.draw(several_rows)))
            case "less" if aside:
                table.release(aside[0])
            case "later":
                table.forget_before(table.since_s + 3)


def stay_of(lease_id: int, span: tuple[int, int | None], rows: tuple[int, ...], kind: str) -> Stay:
    amounts = ((1, 10),) * len(rows)
    return Stay(lease_id, *span, rows, amounts, firm=kind == "firm", promise=kind == "promise")


stays_of_leases = st.lists(
    st.lists(st.tuples(spans, several_rows, st.sampled_from(["firm", "loose"])), min_size=1, max_size=2), max_size=6
)


@given(stays_of_leases, st.sets(st.integers(0, 5)), st.lists(questions, max_size=4), st.integers(0, 20))
def test_a_timeline_says_what_is_free_when_leases_are_set_aside(
    drawn: list[list[tuple[tuple[int, int | None], tuple[int, ...], str]]],
    promised: set[int],
    asked: list[tuple[tuple[int, int | None], list[int]]],
    later_s: int,
) -> None:
    base = np.full((HOSTS, 2), 20, dtype=np.int64)
    stays = {}
    for lease_id, found in enumerate(drawn):
        of_lease = [stay_of(lease_id, *one) for one in found]
        if lease_id in promised:
            of_lease[-1] = replace(of_lease[-1], firm=False, promise=True)
        stays[lease_id] = tuple({(one.start_s, one.end_s, one.host_rows): one for one in of_lease}.values())
    room = ObservedRoom(tuple(range(HOSTS)), base, base, stays, np.ones(HOSTS, dtype=np.bool_))
    timeline = Timeline(room, 0)
    timeline.all_stays.forget_before(later_s)
    timeline.firm_stays.forget_before(later_s)
    for span, lease_ids in asked:
        free = timeline.free_without(lease_ids, *span), timeline.free_without(lease_ids, *span, firmly=True)
        aside = [had for lease_id in lease_ids if (had := timeline.withdraw(lease_id))]
        tables = timeline.all_stays.table, timeline.firm_stays
        assert [one.tolist() for one in free] == [table.free_during(*span).tolist() for table in tables]
        for had in aside:
            timeline.hold(had)
