"""What a matchmaker and a host table keep from one observation to the next is what would be found anew."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching import host_match
from one_preempt.core.matching.expressions.attributes import Attributes, host_attributes
from one_preempt.core.matching.host_match import KINDS_KEPT
from one_preempt.core.matching.host_table import changed_rows, host_table
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.model.access import User
from one_preempt.core.model.cluster_state import HostTable
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from tests.core.matching.small_cloud import NO_LIMITS, USERS_GID, cloud, host, matchmaker, vm

EMPTY = host(0)
LOADED = replace(EMPTY, running_vms=2, cpu_usage_centi=200)
WANTS_AN_EMPTY_HOST = replace(vm(1), sched_requirements="RUNNING_VMS < 1")
WANTS_A_NAME = replace(vm(2), sched_requirements='NAME = "node1"')


def table_after(hosts: Mapping[int, Host], before: HostTable | None) -> HostTable:
    """Made of what was known before."""
    return host_table(hosts, before, changed_rows(hosts, before, None))


def following(first: PoolSnapshot, second: PoolSnapshot) -> Matchmaker | None:
    """A matchmaker of the first cloud that has matched both VMs, if it follows to the second."""
    maker = matchmaker(first)
    for machine in (WANTS_AN_EMPTY_HOST, WANTS_A_NAME):
        maker.match(machine)
    return maker if maker.follow(second, table_after(second.hosts, maker.hosts), maker.options) else None


def test_what_speaks_of_the_load_is_matched_again_when_the_load_has_changed() -> None:
    first = cloud([EMPTY, host(1)])
    maker = following(first, replace(first, hosts={**first.hosts, 0: LOADED}))

    assert maker is not None
    assert maker.match(WANTS_AN_EMPTY_HOST).mask.tolist() == [False, True]
    assert maker.match(WANTS_A_NAME).mask.tolist() == [False, True]
    assert maker.new_room().free[0].tolist() == [200, 8192]


def test_a_host_that_was_changed_by_somebody_is_matched_again() -> None:
    first = cloud([EMPTY, host(1)], ASKING)
    for changed in (replace(EMPTY, name="node1"), replace(EMPTY, state=HostState.DISABLED), host(0, cluster_id=7)):
        second = replace(first, hosts={**first.hosts, 0: changed})
        maker = following(first, second)
        assert maker is not None
        assert_matches_as_anew(maker, second)


def test_a_host_that_was_changed_is_read_once_for_all_kinds_of_vms(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Host] = []

    def reads(one: Host) -> Attributes:
        read.append(one)
        return host_attributes(one)

    monkeypatch.setattr(host_match, "host_attributes", reads)
    kinds = [replace(vm(1), sched_requirements=f"NAME = n{number}", sched_rank=f"ID * {number}") for number in range(9)]
    now = cloud([host(number) for number in range(20)])
    maker = matchmaker(now)
    for turn in range(4):
        for machine in kinds:
            maker.match(machine)
            maker.preference(machine)
        now = replace(now, hosts={of: replace(one, attributes={"T": (str(turn),)}) for of, one in now.hosts.items()})
        assert maker.follow(now, table_after(now.hosts, maker.hosts), maker.options)

    assert len(read) == 4 * 20


def test_of_which_hosts_more_than_the_load_has_changed_is_known_of_tables_in_turn_and_of_any_two() -> None:
    first = table_after({number: host(number) for number in range(5)}, None)
    now = {
        **dict(enumerate(first.hosts)),
        0: LOADED,
        1: replace(host(1), state=HostState.DISABLED),
        2: replace(host(2), max_cpu_centi=100),
        3: replace(host(3), attributes={"TEMPLATE/RACK": ("A",)}),
    }
    second = table_after(now, first)
    third = table_after({**now, 4: replace(host(4), running_vms=1)}, second)

    assert (second.rows_since(first), second.turned_since(first)) == ([0, 1, 2, 3], [1, 2, 3])
    assert (third.rows_since(second), third.turned_since(second)) == ([4], [])
    assert third.turned_since(first) == [1, 2, 3]
    assert second.ids is third.ids
    assert second.capacity is third.capacity
    assert second.accepts_vms is third.accepts_vms


def test_a_host_in_place_of_another_one_is_not_followed() -> None:
    first = cloud([EMPTY, host(1)])
    assert following(first, cloud([EMPTY, host(2)])) is None
    assert following(first, cloud([EMPTY, host(1), host(2)])) is None


def test_a_matchmaker_that_knows_far_more_kinds_than_there_are_vms_is_not_kept() -> None:
    first = cloud([EMPTY, host(1)])
    maker = matchmaker(first)
    for number in range(KINDS_KEPT // 2):
        maker.match(replace(vm(1), sched_requirements=f"ID < {number}"))
    assert maker.follow(first, maker.hosts, maker.options)
    maker.preference(replace(vm(1), sched_rank="ID"))
    assert not maker.follow(first, maker.hosts, maker.options)


ASKING = (
    vm(3),
    replace(vm(1), sched_requirements="RUNNING_VMS < 1", sched_rank="FREE_CPU"),
    replace(vm(2), sched_requirements='NAME = "node1"', sched_rank="ID"),
    replace(vm(4), sched_requirements="STATE = 2", sched_rank="KIND"),
    replace(vm(5), sched_requirements='KIND = "1"', automatic_requirements="CLUSTER_ID = 0"),
    replace(vm(6), sched_requirements="KIND = "),
)


def assert_matches_as_anew(maker: Matchmaker, snapshot: PoolSnapshot) -> None:
    """What is found for VMs of all kinds is what another one finds that knows nothing."""
    anew = matchmaker(snapshot)
    for machine in ASKING:
        found, fresh = maker.match(machine), anew.match(machine)
        assert found.mask.tolist() == fresh.mask.tolist()
        assert (found.counts, found.refusal, found.follows_load) == (fresh.counts, fresh.refusal, fresh.follows_load)
        assert maker.preference(machine).tolist() == anew.preference(machine).tolist()
        assert maker.place(machine, maker.new_room()) == anew.place(machine, anew.new_room())


versions_of_hosts = st.builds(
    lambda used, state, cluster, kind: replace(
        host(0, used_cpu_centi=100 * used, state=state, cluster_id=cluster),
        running_vms=used,
        attributes={"TEMPLATE/KIND": (kind,), "TEMPLATE/PIN_POLICY": ("PINNED" if kind == "2" else "NONE",)},
    ),
    st.integers(0, 4),
    st.sampled_from([HostState.MONITORED, HostState.MONITORED, HostState.DISABLED, HostState.OFFLINE]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from(["1", "2", "3"]),
)


@given(st.lists(st.dictionaries(st.integers(0, 3), versions_of_hosts, max_size=2), max_size=12), st.data())
def test_what_is_found_is_the_same_whatever_happened_to_hosts_before(
    happened: list[dict[int, Host]], data: st.DataObject
) -> None:
    now = cloud([host(number) for number in range(4)], ASKING)
    maker = matchmaker(now)
    seen = maker.matched_at, [(one.accepts_vms, one.attributes) for one in now.hosts.values()]
    for changed in happened:
        hosts = {number: replace(one, id=number, name=f"node{number}") for number, one in changed.items()}
        now = replace(now, hosts={**now.hosts, **hosts})
        assert maker.follow(now, table_after(now.hosts, maker.hosts), maker.options)
        if maker.matched_at is seen[0]:
            assert seen[1] == [(one.accepts_vms, one.attributes) for one in now.hosts.values()]
        seen = maker.matched_at, [(one.accepts_vms, one.attributes) for one in now.hosts.values()]
        if data.draw(st.booleans()):
            assert_matches_as_anew(maker, now)
    assert_matches_as_anew(maker, now)


def test_a_user_who_came_into_another_group_is_matched_anew() -> None:
    first = cloud([EMPTY, host(1)])
    moved = User(5, "ann", USERS_GID, "users", (USERS_GID, 100))

    assert following(first, replace(first, directory=replace(first.directory, users={5: replace(moved)}))) is None
    spent = replace(first.directory.users[5], enabled=False)
    assert following(first, replace(first, directory=replace(first.directory, users={5: spent}))) is not None


def test_what_is_stored_changes_nothing_about_hosts_and_is_looked_at_anew() -> None:
    picky = replace(vm(3), sched_datastore_requirements="FREE_MB > 1000")
    first = cloud([EMPTY, host(1)], [picky])
    store_id, store = next(iter(first.datastores.items()))
    maker = matchmaker(first)
    assert not isinstance(maker.place(picky, maker.new_room()), Unplaced)
    emptied = replace(first, datastores={store_id: replace(store, free_mib=500)})
    assert maker.follow(emptied, maker.hosts, maker.options)
    refused = maker.place(picky, maker.new_room())
    assert isinstance(refused, Unplaced)
    assert refused == matchmaker(emptied).place(picky, matchmaker(emptied).new_room())


def test_what_was_said_while_all_was_full_is_said_only_while_it_holds() -> None:
    gang = [replace(vm(number), sched_datastore_requirements="FREE_MB > 1000") for number in (3, 4)]
    first = cloud([host(number, used_cpu_centi=400) for number in range(2)], gang)
    maker = matchmaker(first)
    store_id, store = next(iter(first.datastores.items()))
    for free_mib in (5000, 5000, 500, 5000):
        now = replace(first, datastores={store_id: replace(store, free_mib=free_mib)})
        assert maker.follow(now, maker.hosts, maker.options)
        anew = matchmaker(now)
        assert maker.place_together(gang, maker.new_room()) == anew.place_together(gang, anew.new_room())
        assert maker.place_together(gang[:1], maker.new_room()) == anew.place_together(gang[:1], anew.new_room())


def test_other_options_are_not_followed() -> None:
    first = cloud([EMPTY, host(1)])
    maker = matchmaker(first)

    assert not maker.follow(first, maker.hosts, replace(NO_LIMITS))
    assert maker.follow(first, maker.hosts, NO_LIMITS)


kinds = st.tuples(st.integers(0, 8), st.sampled_from([100, 400]), st.integers(0, 3), st.sampled_from(list(HostState)))


def hosts_of(drawn: list[tuple[int, int, int, HostState]]) -> dict[int, Host]:
    return {
        number: host(number, cpu, used_cpu_centi=100 * used, state=state)
        for number, cpu, used, state in reversed(drawn)
    }


@given(st.lists(st.lists(kinds, max_size=10, unique_by=lambda kind: kind[0]), min_size=2, max_size=4), st.data())
def test_a_host_table_is_the_same_whatever_was_known_before(
    observed: list[list[tuple[int, int, int, HostState]]], data: st.DataObject
) -> None:
    table = None
    for drawn in observed:
        hosts = hosts_of(drawn)
        if table is not None:
            # Some hosts are the very objects of before.
            for known in data.draw(st.lists(st.sampled_from(table.hosts or (EMPTY,)), max_size=8)):
                hosts[known.id] = known
        table, fresh = table_after(hosts, table), host_table(hosts)
        for name in ("ids", "free", "capacity", "accepts_vms"):
            assert np.array_equal(getattr(table, name), getattr(fresh, name))
        assert table.index_by_id == fresh.index_by_id
        assert table.hosts == fresh.hosts
