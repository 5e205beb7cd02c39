"""What is remembered of rooms, kinds and the timeline says what would be found from scratch, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.alike_hosts import AlikeHosts
from one_preempt.core.availability.timeline import ObservedRoom, Timeline
from one_preempt.core.matching.host_table import host_table
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.memory.lease_concerns import LeaseConcerns
from one_preempt.core.memory.remembered_rooms import RememberedRooms
from one_preempt.core.memory.remembered_ways_out import RememberedWaysOut
from one_preempt.core.model.access import Directory
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import HostState
from one_preempt.core.model.infrastructure import Datastore, Network
from one_preempt.core.model.lease import Lease, LeaseState, LeaseType
from one_preempt.core.model.ledger import OpenPreemption
from one_preempt.core.model.modes_and_limits import Mode
from one_preempt.core.model.plan import Placement, Preemption
from one_preempt.core.model.reservation import Reservation
from one_preempt.core.model.time_rules import Overrun
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.rates import OverheadRates
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.reservations.giving_way import giving_way
from one_preempt.core.policies import Policies
from one_preempt.core.preemption.moml import POLICY as MOML
from one_preempt.core.queue_order.user_priority import POLICY as BY_PRIORITY
from one_preempt.core.suspendable import ways_out
from tests.core.matching.small_cloud import datastore
from tests.core.recounted_cluster import NOW_S, cluster, host, lease, running, waiting
from tests.simulation.time_stories.watched_cycle import timeline_differences

POLICIES = Policies(MOML, BY_PRIORITY, mode=Mode.ACT, match=MatchOptions(check_access=False))
OVERRUNS_LEAVE = replace(
    POLICIES,
    time=replace(POLICIES.time, overrun=Overrun.PREEMPT),
    victims=replace(POLICIES.victims, paused_by_owner=True),
)
RATES = OverheadRates()
STORES = {0: datastore(0), 1: datastore(1, shared=False)}
NETWORKS: dict[int, Network] = {}
DIRECTORY = Directory()
HOSTS, LEASES = 3, 4


@dataclass(frozen=True)
class Drawn:
    """A lease as one observation finds it: on which host, since when and for how long, in which store."""

    host_id: int | None
    began_s: int
    duration_s: int | None
    store_id: int
    cpus: int
    requirement: str
    preemptable: bool
    paused: bool

    def vm(self, lease_id: int) -> VirtualMachine:
        machine = waiting(lease_id, cpus=self.cpus)
        if self.host_id is not None:
            machine = running(lease_id, self.host_id, cpus=self.cpus)
            machine = replace(machine, history=(replace(machine.history[0], datastore_id=self.store_id),))
        return replace(machine, sched_requirements=self.requirement)

    def lease(self, lease_id: int) -> Lease:
        kind = LeaseType.BE_SUSPENDABLE if self.preemptable else LeaseType.DC_NON_PREEMPTABLE
        plain = lease(lease_id, lease_type=kind)
        runs = self.host_id is not None
        # Paused in part: its clock goes on, as long as another VM of it runs.
        on_host = LeaseState.PAUSED_BY_OWNER if self.paused else LeaseState.RUNNING
        return replace(
            plain,
            terms=replace(plain.terms, duration_s=self.duration_s),
            state=on_host if runs else LeaseState.WAITING,
            run_began_at_s=NOW_S + self.began_s if runs else None,
        )


def promised(lease_id: int, starts_s: tuple[int, ...]) -> tuple[Reservation, ...]:
    """At odd seconds firmly, on a host; at even ones by the queue, which names none."""
    return tuple(
        Reservation(lease_id, NOW_S + at_s, NOW_S + at_s + 40, (0,) if at_s % 2 else (), firm=bool(at_s % 2))
        for at_s in starts_s
    )


def preemption(lease_id: int) -> OpenPreemption:
    places = (Placement(lease_id, HOSTS - 1, 0, ()),)
    made = Preemption("p", lease_id, (), places, "moml", overhead_ms=0, optimal=True, bound_ms=0, decided_at_s=NOW_S)
    return OpenPreemption(made, NOW_S)


@dataclass
class Cloud:
    """Observations one after the other: a lease that is drawn as before is the very object of before."""

    known: dict[int, tuple[Drawn, Lease, VirtualMachine]] = field(default_factory=dict)
    before: ClusterState | None = None
    stores: dict[int, Datastore] = field(default_factory=lambda: STORES)

    def observed(
        self,
        drawn: dict[int, Drawn],
        starts_s: dict[int, tuple[int, ...]],
        off: int | None,
        now_s: int,
        comes: int,
        free_mib: int | None,
    ) -> ClusterState:
        """`comes` is a lease for which room is being made on the last host, if it waits.

        `free_mib` is what is left on the storage that all share; None: as much as before.
        """
        if free_mib is not None:
            self.stores = {**STORES, 0: replace(STORES[0], free_mib=free_mib)}
        self.known = {
            lease_id: self.known[lease_id]
            if lease_id in self.known and self.known[lease_id][0] == one
            else (one, one.lease(lease_id), one.vm(lease_id))
            for lease_id, one in drawn.items()
        }
        vms = [vm for _, _, vm in self.known.values()]
        hosts = [host(number, [vm for vm in vms if vm.host_id == number]) for number in range(HOSTS)]
        if off is not None:
            hosts[off] = replace(hosts[off], state=HostState.DISABLED)
        if self.before is not None:
            hosts = [
                old if (old := self.before.snapshot.hosts[new.id]) == new else replace(new, attributes=old.attributes)
                for new in hosts
            ]
        state = cluster(hosts, vms, [one for _, one, _ in self.known.values()])
        table = host_table(state.snapshot.hosts)
        if self.before is not None:
            table = replace(table, index_by_id=self.before.hosts.index_by_id)
        reservations = {lease_id: promised(lease_id, at_s) for lease_id, at_s in starts_s.items() if at_s}
        state = replace(
            state,
            now_s=NOW_S + now_s,
            hosts=table,
            reservations=reservations,
            preemptions=(preemption(comes),) if comes in drawn and drawn[comes].host_id is None else (),
            snapshot=replace(state.snapshot, datastores=self.stores, networks=NETWORKS, directory=DIRECTORY),
        )
        self.before = state
        return state


leases_drawn = st.builds(
    Drawn,
    host_id=st.sampled_from([None, *range(HOSTS)]),
    began_s=st.just(0),
    duration_s=st.sampled_from([50, 10, 90, None]),
    store_id=st.sampled_from([0, 0, 0, 1]),
    cpus=st.sampled_from([1, 1, 1, 1, 1, 2]),
    requirement=st.sampled_from(["", "", "", "RUNNING_VMS < 1", "ID > 0"]),
    preemptable=st.booleans(),
    paused=st.sampled_from([False, False, True]),
)
happenings = st.tuples(
    st.dictionaries(st.integers(0, LEASES - 1), st.one_of(leases_drawn, leases_drawn, st.none()), max_size=1),
    st.dictionaries(st.integers(0, LEASES - 1), st.sampled_from([(8,), (5,), (), (5, 60)]), max_size=1),
    st.sampled_from([None, None, None, None, 0]),
    st.integers(0, 12),
    st.integers(0, LEASES - 1),
    st.sampled_from([-1, -1, -1, 0, 1]),
    st.sampled_from([-1, -1, -1, 1, 2]),
    st.sampled_from([None, None, None, 900_000, 1024, 1025, 0]),
)


@settings(max_examples=200)
@given(
    st.lists(leases_drawn, min_size=LEASES, max_size=LEASES),
    st.lists(happenings, min_size=4, max_size=8),
    st.sampled_from([POLICIES, OVERRUNS_LEAVE]),
)
def test_what_is_remembered_says_what_is_found_from_scratch(
    first: list[Drawn],
    story: list[tuple[dict[int, Drawn | None], dict[int, tuple[int, ...]], int | None, int, int, int, int, int | None]],
    policies: Policies,
) -> None:
    cloud, rooms, alike, remembered_ways_out = Cloud(), RememberedRooms(), AlikeHosts(), RememberedWaysOut()
    concerns = LeaseConcerns()
    maker: Matchmaker | None = None
    timeline: Timeline | None = None
    drawn = dict(enumerate(first))
    starts_s: dict[int, tuple[int, ...]] = {}
    now_s = 0
    for changes, promises, off, later_s, withdrawn, comes, rests, free_mib in story:
        now_s += later_s
        drawn = {key: one for key, one in {**drawn, **changes}.items() if one is not None}
        starts_s = {key: at_s for key, at_s in {**starts_s, **promises}.items() if key in drawn}
        state = cloud.observed(drawn, starts_s, off, now_s, comes, free_mib)
        resting = frozenset({rests}) if rests in drawn and drawn[rests].host_id is not None else frozenset()
        if maker is None or not maker.follow(state.snapshot, state.hosts, policies.match):
            maker = Matchmaker(state.snapshot, state.hosts, policies.match)
        room = rooms.observed(state, policies, RATES, resting, concerns.observe(state))
        slots = alike.slots(state, maker, room)
        if timeline is None:
            timeline = Timeline(room, state.now_s, slots)
        else:
            timeline.observe(room, state.now_s, slots)

        for one in state.leases.values():
            assert remembered_ways_out.of(state, policies, one) == ways_out(state, policies, one)
        anew = RememberedRooms().observed(state, policies, RATES, resting, frozenset())
        fresh_maker = Matchmaker(state.snapshot, state.hosts, policies.match)
        assert _said(room) == _said(anew)
        assert slots == AlikeHosts().slots(state, fresh_maker, anew)
        fresh = Timeline(anew, state.now_s, slots)
        assert list(timeline_differences(timeline, fresh)) == []
        assert _counted(timeline) == _counted(fresh)
        # As a decision does, of which nothing comes.
        timeline.withdraw(withdrawn)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(leases_drawn, min_size=LEASES, max_size=LEASES), st.lists(happenings, min_size=3, max_size=6))
def test_who_gives_way_is_who_is_found_from_scratch(
    first: list[Drawn],
    story: list[tuple[dict[int, Drawn | None], dict[int, tuple[int, ...]], int | None, int, int, int, int, int | None]],
) -> None:
    cloud, memory, drawn, now_s = Cloud(), DecisionMemory(), dict(enumerate(first)), 0
    for changes, promises, off, later_s, _, comes, _, free_mib in story:
        now_s += later_s
        drawn = {key: one for key, one in {**drawn, **changes}.items() if one is not None}
        starts_s = {key: at_s for key, at_s in promises.items() if key in drawn}
        state = cloud.observed(drawn, starts_s, off, now_s, comes, free_mib)
        draft = PlanDraft.begin(state, POLICIES, memory)
        anew = PlanDraft.begin(state, POLICIES, DecisionMemory())

        assert giving_way(draft) == giving_way(anew)
        assert memory.giving_way.by_row() == anew.memory.giving_way.by_row()
        draft.remember()


def _said(room: ObservedRoom) -> tuple[object, ...]:
    return room.host_ids, room.base.tolist(), room.firm_base.tolist(), room.stays, room.accepting.tolist()


def _counted(timeline: Timeline) -> list[list[int]] | None:
    return None if timeline.alike is None else np.array(timeline.alike.profile.as_steps()).tolist()
