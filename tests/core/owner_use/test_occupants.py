"""Who is on a host, for whom and since when, from look to look."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.model.owner_use import Occupants
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import PREEMPTION_LOCK, VirtualMachine, VmState
from one_preempt.core.owner_use.occupants import observed_occupants
from tests.core.matching.small_cloud import vm
from tests.core.owner_use.small_use import NOW_S, on_host, owned, seen, stopped


def looked(*pools: PoolSnapshot) -> Occupants:
    """What is known after looking at each of these in turn, ten seconds apart."""
    occupants: Occupants | None = None
    for number, pool in enumerate(pools):
        occupants = observed_occupants(pool, occupants, None, NOW_S + 10 * number)
    assert occupants is not None
    return occupants


def stays(occupants: Occupants) -> dict[int, int]:
    return {vm_id: one.since_s for vm_id, one in occupants.present.items()}


def left(occupants: Occupants) -> list[tuple[int, int, int]]:
    return [(gone.occupant.uid, gone.occupant.since_s, gone.until_s) for gone in occupants.departed]


def test_a_vm_is_there_since_it_came_to_its_host() -> None:
    assert stays(looked(seen([on_host(1, NOW_S - 500), vm(2)]))) == {1: NOW_S - 500}


def test_one_that_ended_between_two_looks_is_counted_up_to_the_second() -> None:
    gone = looked(seen([on_host(1, NOW_S - 4)]), seen([]))
    assert (stays(gone), left(gone)) == ({}, [(5, NOW_S - 4, NOW_S + 10)])


def test_one_that_was_stopped_is_there_no_more_and_again_when_it_returns() -> None:
    first = on_host(1, NOW_S - 500)
    back = on_host(1, NOW_S + 15)
    occupants = looked(seen([first]), seen([stopped(first)]), seen([back]))
    assert (stays(occupants), left(occupants)) == ({1: NOW_S + 15}, [(5, NOW_S - 500, NOW_S + 10)])


def test_a_vm_that_is_given_to_another_owner_counts_for_the_old_one_until_then() -> None:
    mine = on_host(1, NOW_S - 500)
    occupants = looked(seen([mine]), seen([owned(mine, 1, 6)]))
    assert occupants.present[1].uid == 6
    assert (stays(occupants), left(occupants)) == ({1: NOW_S + 10}, [(5, NOW_S - 500, NOW_S + 10)])


def test_one_that_its_owner_gives_to_another_group_counts_for_the_one_that_got_its_host() -> None:
    """He would be next as a member of the one group, and have the other one charged."""
    mine = on_host(1, NOW_S - 500, gid=1)
    there = owned(mine, 2, 5)
    larger = replace(there, cpu_centi=800)
    occupants = looked(seen([mine]), seen([there]), seen([larger]))
    now = occupants.present[1]
    assert (now.gid, now.group_name, now.cpu_centi) == (1, "group1", 800)
    assert left(occupants) == [(5, NOW_S - 500, NOW_S + 20)]
    back = on_host(1, NOW_S + 35, gid=2)
    assert looked(seen([mine]), seen([stopped(there)]), seen([back])).present[1].gid == 2


def test_one_that_is_resized_counts_as_it_was_until_then() -> None:
    small = on_host(1, NOW_S - 500)
    occupants = looked(seen([small]), seen([replace(small, cpu_centi=800)]))
    assert [gone.occupant.cpu_centi for gone in occupants.departed] == [100]
    assert occupants.present[1].cpu_centi == 800


def test_one_that_moves_to_another_host_goes_on() -> None:
    here = on_host(1, NOW_S - 500)
    there = replace(here, history=(*here.history, replace(here.history[0], host_id=1, start_at_s=NOW_S + 8)))
    assert stays(looked(seen([here]), seen([there]))) == {1: NOW_S - 500}


def test_one_that_cannot_be_read_counts_as_it_was() -> None:
    machine = on_host(1, NOW_S - 500)
    hidden = seen([], unreadable_vm_ids=frozenset({1}))
    occupants = looked(seen([machine]), hidden, seen([machine]))
    assert (stays(occupants), left(occupants)) == ({1: NOW_S - 500}, [])


def test_one_that_we_suspended_for_others_does_not_count_and_one_that_its_owner_did_does() -> None:
    machine = replace(on_host(1, NOW_S - 500), state=VmState.SUSPENDED, lcm_state=0)
    lent = replace(machine, lock_level=PREEMPTION_LOCK, lock_owner_uid=0)
    assert stays(looked(seen([machine]))) == {1: NOW_S - 500}
    assert stays(looked(seen([lent]))) == {}
    # Before it is resumed it is counted by nobody.
    assert stays(looked(seen([lent]), seen([machine]))) == {1: NOW_S}


def test_what_a_clock_that_was_ahead_has_left_is_forgotten() -> None:
    year_s = 365 * 86_400
    ahead = observed_occupants(seen([on_host(1, NOW_S + year_s)]), None, None, NOW_S + year_s)
    back = observed_occupants(seen([on_host(1, NOW_S + year_s), on_host(2, NOW_S - 50)]), ahead, None, NOW_S)
    assert stays(back) == {1: NOW_S, 2: NOW_S - 50}


MACHINES = st.builds(
    lambda vm_id, since, uid, cpu, out: (stopped if out else lambda one: one)(
        on_host(vm_id, NOW_S + since, uid=uid, cpu_centi=100 * cpu)
    ),
    st.integers(1, 6),
    st.integers(-100, 60),
    st.integers(5, 6),
    st.integers(1, 2),
    st.booleans(),
)
POOLS = st.lists(st.lists(MACHINES, max_size=5, unique_by=lambda one: one.id), min_size=2, max_size=7)


@given(POOLS)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_looking_at_what_changed_finds_what_looking_at_all_finds(pools: list[list[VirtualMachine]]) -> None:
    told: Occupants | None = None
    untold: Occupants | None = None
    before: dict[int, VirtualMachine] = {}
    for number, machines in enumerate(pools):
        now = {one.id: one for one in machines}
        changed = frozenset(one for one in before.keys() | now.keys() if before.get(one) is not now.get(one))
        pool, now_s = seen(machines), NOW_S + 10 * number
        told = observed_occupants(pool, told, changed, now_s)
        untold = observed_occupants(pool, untold, None, now_s)
        assert told == untold
        assert told.present.keys() == {one.id for one in machines if one.host_id is not None}
        before = now
