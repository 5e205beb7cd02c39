"""Balancing and packing: never more than fits, never worse, never a VM that must stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.admission.rules import AdmissionRules, LeaseRule, VmMatch
from one_preempt.core.balancing.balance import balance
from one_preempt.core.balancing.cluster_load import FULL, ClusterLoad, Weights
from one_preempt.core.balancing.migrations import UNLIMITED, BalancingLimits, Migrations
from one_preempt.core.balancing.movable import movable_vms
from one_preempt.core.balancing.pack import pack
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.model.infrastructure import VmGroup, VmGroupRole
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.resources import Resources
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, PciRequest, Topology, VirtualMachine, VmState
from tests.core.matching.small_cloud import cloud, host, matchmaker, running, vm

Policy = Callable[[Migrations], Iterator[Placement]]
POLICIES: dict[str, Policy] = {"balance": balance, "pack": pack}
APART = 7


@dataclass(frozen=True)
class Cluster:
    """Hosts with VMs; `movable` are those that may move."""

    snapshot: PoolSnapshot
    movable: frozenset[int]


def cluster_of(sizes: list[tuple[int, int]], vms: list[VirtualMachine], movable: frozenset[int]) -> Cluster:
    """Hosts of these sizes, on which oned counts exactly these VMs."""
    hosts = []
    for host_id, (cpu_centi, memory_mib) in enumerate(sizes):
        here = [each for each in vms if each.host_id == host_id]
        hosts.append(
            host(
                host_id,
                cpu_centi,
                memory_mib,
                used_cpu_centi=sum(each.cpu_centi for each in here),
                used_memory_mib=sum(each.memory_mib for each in here),
                vm_ids=tuple(each.id for each in here),
            )
        )
    group = VmGroup(
        APART, "apart", (VmGroupRole(0, "r", "ANTI_AFFINED", tuple(v.id for v in vms if v.vm_group_id == APART)),)
    )
    return Cluster(cloud(hosts, vms, vm_groups={APART: group}), movable)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    count = draw(st.integers(1, 6))
    sizes = [(draw(st.integers(1, 16)) * 100, draw(st.integers(1, 32)) * 1024) for _ in range(count)]
    vms = []
    for vm_id in range(draw(st.integers(0, 14))):
        machine = vm(vm_id, draw(st.integers(0, 6)) * 50, draw(st.integers(1, 12)) * 512)
        if draw(st.integers(0, 4)) == 0:
            machine = replace(machine, vm_group_id=APART, vm_group_role="r")
        vms.append(running(machine, draw(st.integers(0, count - 1))))
    movable = frozenset(each.id for each in vms if draw(st.integers(0, 5)))
    return cluster_of(sizes, vms, movable)


def planned(
    policy: Policy, cluster: Cluster, threshold: int = UNLIMITED, weights: Weights | None = None
) -> list[Placement]:
    maker = matchmaker(cluster.snapshot)
    limits = BalancingLimits(threshold, weights or Weights())
    return list(policy(Migrations(maker, maker.new_room(), cluster.movable, limits)))


def spread_after(cluster: Cluster, moves: list[Placement]) -> int:
    """The sum of squared loads, counted from scratch."""
    hosts = host_table(cluster.snapshot.hosts)
    load = ClusterLoad(hosts, Weights())
    for placed in moves:
        machine = cluster.snapshot.vms[placed.vm_id]
        load.move(machine.resources, machine.host_id or 0, placed.host_id)
    return load.spread


def places(cluster: Cluster, moves: list[Placement]) -> dict[int, int]:
    here = {each.id: each.host_id for each in cluster.snapshot.vms.values() if each.host_id is not None}
    return here | {placed.vm_id: placed.host_id for placed in moves}


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=200)
@given(cluster=clusters(), threshold=st.integers(-1, 6))
def test_every_part_of_a_plan_fits_whatever_else_of_it_is_done(name: str, cluster: Cluster, threshold: int) -> None:
    plan = planned(POLICIES[name], cluster, threshold)
    arrived: dict[int, Resources] = {}
    for placed in plan:
        machine = cluster.snapshot.vms[placed.vm_id]
        assert machine.id in cluster.movable
        assert placed.host_id != machine.host_id
        assert placed.datastore_id == machine.history[-1].datastore_id
        arrived[placed.host_id] = arrived.get(placed.host_id, Resources(0, 0)) + machine.resources
        free = cluster.snapshot.hosts[placed.host_id].free
        assert arrived[placed.host_id].cpu_centi <= free.cpu_centi
        assert arrived[placed.host_id].memory_mib <= free.memory_mib
    assert len({placed.vm_id for placed in plan}) == len(plan)
    assert threshold == UNLIMITED or len(plan) <= threshold


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=100)
@given(cluster=clusters())
def test_no_migration_brings_vms_together_that_must_be_apart(name: str, cluster: Cluster) -> None:
    plan = planned(POLICIES[name], cluster)
    group = [each.id for each in cluster.snapshot.vms.values() if each.vm_group_id == APART]
    for length in range(1, len(plan) + 1):
        after = places(cluster, plan[:length])
        moved = plan[length - 1]
        if moved.vm_id in group:
            assert all(after[other] != moved.host_id for other in group if other != moved.vm_id)


@settings(max_examples=200)
@given(cluster=clusters())
def test_each_step_of_balancing_makes_the_load_more_even(cluster: Cluster) -> None:
    plan = planned(balance, cluster)
    spreads = [spread_after(cluster, plan[:length]) for length in range(len(plan) + 1)]
    assert all(after < before for before, after in pairwise(spreads))


@settings(max_examples=200)
@given(cluster=clusters())
def test_packing_never_needs_more_hosts_and_ends_with_fewer(cluster: Cluster) -> None:
    plan = planned(pack, cluster)
    in_use = [len(set(places(cluster, plan[:length]).values())) for length in range(len(plan) + 1)]
    assert all(after <= before for before, after in pairwise(in_use))
    assert not plan or in_use[-1] < in_use[0]


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=50)
@given(cluster=clusters())
def test_the_order_of_the_document_changes_nothing(name: str, cluster: Cluster) -> None:
    hosts = [
        replace(each, vm_ids=tuple(reversed(each.vm_ids))) for each in reversed(list(cluster.snapshot.hosts.values()))
    ]
    vms = reversed(list(cluster.snapshot.vms.values()))
    other = Cluster(cloud(hosts, vms, vm_groups=cluster.snapshot.vm_groups), cluster.movable)
    assert planned(POLICIES[name], other) == planned(POLICIES[name], cluster)


def test_vms_leave_a_full_host_for_an_empty_one() -> None:
    vms = [running(vm(number), 0) for number in range(4)]
    plan = planned(balance, cluster_of([(400, 8192), (400, 8192)], vms, frozenset(range(4))))
    assert [(placed.vm_id, placed.host_id) for placed in plan] == [(0, 1), (1, 1)]


def test_a_difference_that_is_not_worth_a_migration_stays() -> None:
    vms = [running(vm(number, 2, 32), 0) for number in range(4)]
    assert planned(balance, cluster_of([(400, 8192), (400, 8192)], vms, frozenset(range(4)))) == []


def test_what_is_not_weighed_is_not_balanced() -> None:
    vms = [running(vm(number, 100, 64), 0) for number in range(4)]
    cluster = cluster_of([(400, 8192), (400, 8192)], vms, frozenset(range(4)))
    assert planned(balance, cluster, weights=Weights(cpu=0, memory=1)) == []
    assert len(planned(balance, cluster, weights=Weights(cpu=1, memory=0))) == 2


def test_the_host_with_the_fewest_vms_is_emptied_onto_the_fullest() -> None:
    vms = [running(vm(0), 0), running(vm(1), 1), running(vm(2), 1), *(running(vm(n), 2) for n in (3, 4, 5))]
    plan = planned(pack, cluster_of([(400, 8192)] * 3, vms, frozenset(range(6))))
    assert [(placed.vm_id, placed.host_id) for placed in plan] == [(0, 2)]


def test_a_host_with_one_vm_that_must_stay_is_not_half_emptied() -> None:
    vms = [running(vm(0), 0), running(vm(1), 0), *(running(vm(n), 1) for n in (2, 3))]
    assert planned(pack, cluster_of([(400, 8192)] * 2, vms, frozenset({0, 2}))) == []


def test_a_host_that_cannot_be_emptied_as_a_whole_is_left_as_it_was() -> None:
    vms = [
        running(vm(0, 100, 4096), 0),
        running(vm(1, 100, 4096), 0),
        *(running(vm(n, 10, 1024), 1) for n in (2, 3, 4)),
    ]
    assert planned(pack, cluster_of([(400, 8192)] * 2, vms, frozenset({0, 1}))) == []


def test_a_full_host_counts_as_full_and_an_empty_one_as_nothing() -> None:
    cluster = cluster_of([(100, 1024), (100, 1024)], [running(vm(0, 100, 1024), 0)], frozenset())
    assert ClusterLoad(host_table(cluster.snapshot.hosts), Weights()).load.tolist() == [FULL, 0]


STAYS: dict[str, dict[str, object]] = {
    "a lease": {"user_template": {"LEASE": ({"TYPE": "BE-SUSPENDABLE"},)}},
    "blocked": {"user_template": {"ONEDRS_BLOCKED": ("yes",)}},
    "marked": {"resched": True},
    "locked": {"lock_level": LockLevel.ADMIN},
    "pinned": {"topology": Topology(1, 1, "CORE", None, None)},
    "with a device": {"pci_requests": (PciRequest("10de"),)},
    "in transition": {"lcm_state": LcmState.MIGRATE},
    "suspended": {"state": VmState.SUSPENDED, "lcm_state": 0},
    "a lease by rule": {"gname": "batch"},
}


@pytest.mark.parametrize("why", STAYS)
def test_who_never_moves(why: str) -> None:
    rules = AdmissionRules((LeaseRule("batch", VmMatch(group="batch"), LeaseType.BE_SUSPENDABLE),))
    plain = running(vm(0), 0)
    other = replace(running(vm(1), 0), **STAYS[why])
    matched = {number: Prematch((0, 1), frozenset({100})) for number in (0, 1, 2)}
    assert movable_vms([plain, other, running(vm(2), 0), running(vm(3), 0)], matched, rules, {2}) == {0}


@pytest.mark.parametrize("name", POLICIES)
def test_the_search_ends_when_its_trials_are_used_up(name: str) -> None:
    vms = [running(vm(0), 0), running(vm(1), 1), *(running(vm(n), 2) for n in range(2, 6))]
    cluster = cluster_of([(800, 16384)] * 3, vms, frozenset(range(6)))
    maker = matchmaker(cluster.snapshot)
    assert (
        len(list(POLICIES[name](Migrations(maker, maker.new_room(), cluster.movable, BalancingLimits(trials=1))))) == 1
    )
    assert not list(POLICIES[name](Migrations(maker, maker.new_room(), cluster.movable, BalancingLimits(trials=0))))
