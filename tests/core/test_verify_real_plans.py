"""Plans that the scheduler really makes over time pass; spoiled in one way, each is caught by the right rule."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from one_preempt.composition import simulated_cycle
from one_preempt.configuration.settings import Settings, TimeSettings
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.lease import Lease, LeaseState, LeaseType
from one_preempt.core.model.plan import Action, ActionKind, Plan
from one_preempt.core.model.recount_rules import RecountRules
from one_preempt.core.model.reservation import Booking, Reservation, Verdict
from one_preempt.core.verify import Violation, verify
from one_preempt.core.verify.books import Books
from one_preempt.simulation.simulator.simulator import Simulator
from one_preempt.simulation.simulator.site import Site, build_cloud, simulation_settings
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest
from tests.core.recounted_cluster import WHY, deploy

SITE = Site((MachineSet(4, 200, 4096),))
PREEMPTABLE = (LeaseType.BE_SUSPENDABLE, LeaseType.DC_MIGRATABLE, LeaseType.BE_CANCELLABLE)
STILL = (ActionKind.MESSAGE, ActionKind.HOLD)
Spoiled = tuple[str, ClusterState, Plan]


def drawn_workload(chance: random.Random) -> Workload:
    """Best effort, reservations and deadlines, of those who may preempt and of others."""
    requests, at_s = [], 0
    for number in range(1, 13):
        at_s += chance.choice((0, 0, 5, 40))
        lasts_s, external = chance.choice((30, 120, 400)), chance.random() < 0.6
        kind = chance.choice(PREEMPTABLE) if external else LeaseType.DC_NON_PREEMPTABLE
        vms = (MachineSet(chance.randint(1, 3), chance.choice((50, 100, 200)), chance.choice((256, 512))),)
        one = WorkloadRequest(number, at_s, vms, lasts_s, lasts_s, lease_type=kind, external=external)
        start = chance.choice((StartKind.BEST_EFFORT, StartKind.EXACT, StartKind.DEADLINE))
        if start is StartKind.EXACT:
            one = replace(one, start=start, start_at_s=at_s + chance.choice((20, 90, 300)))
        elif start is StartKind.DEADLINE:
            kind = LeaseType.DC_MIGRATABLE if external else kind
            one = replace(
                one, lease_type=kind, start=start, deadline_at_s=at_s + lasts_s + chance.choice((40, 300, 900))
            )
        elif external:
            one = replace(one, max_suspensions=chance.choice((None, 1, 2)))
        requests.append(one)
    return Workload(tuple(requests))


# -- ways to spoil a plan ------------------------------------------------------------------------------------


def spoiled(state: ClusterState, made: Plan) -> Iterator[Spoiled]:
    """Each with the rule that has to catch it."""
    for booking in made.bookings:
        if any(one.firm for one in booking.reservations):
            yield from _spoiled_booking(state, made, booking)
    for given in made.verdicts:
        if given.verdict is Verdict.ACCEPTED:
            yield "contrary-verdicts", state, replace(made, verdicts=(*made.verdicts, given))
    busy = {action.vm_id for action in made.actions if action.kind not in STILL}
    for lease in state.leases.values():
        if not busy.intersection(lease.vm_ids):
            yield from _spoiled_lease(state, made, lease)
    for preemption in made.preemptions:
        lease = state.leases[preemption.victim_lease_ids[0]]
        if lease.terms.duration_s is not None and lease.left_at(state.now_s) != 1:
            often = replace(lease, terms=replace(lease.terms, max_suspensions=lease.preemptions))
            yield "suspended-too-often", replace(state, leases={**state.leases, lease.id: often}), made


def _spoiled_booking(state: ClusterState, made: Plan, booking: Booking) -> Iterator[Spoiled]:
    lease, first, last = state.leases[booking.lease_id], booking.reservations[0], booking.reservations[-1]

    def instead(*reservations: Reservation) -> Plan:
        others = tuple(one for one in made.bookings if one is not booking)
        return replace(made, bookings=(*others, Booking(lease.id, reservations)))

    yield "booked-hosts", state, instead(replace(first, host_ids=(999,) * len(first.host_ids)))
    yield "malformed-booking", state, instead(replace(first, end_at_s=first.start_at_s))
    accepted_now = any(given.lease_id == lease.id for given in made.verdicts)
    if accepted_now:
        yield "nothing-booked", state, instead()
    if lease.terms.deadline_at_s is not None and accepted_now:
        yield (
            "past-deadline",
            state,
            instead(*booking.reservations[:-1], replace(last, end_at_s=lease.terms.deadline_at_s + 1)),
        )
        yield "too-short", state, instead(replace(first, end_at_s=first.start_at_s + 1))
    elif accepted_now and first.end_at_s is not None:
        late = replace(first, start_at_s=first.start_at_s - 1)
        yield "not-at-start", state, instead(late)
    # What starts, or has room made for it, is claimed where that is.
    if accepted_now and first.start_at_s > state.now_s and lease.id not in _moving(state, made):
        host = state.snapshot.hosts[first.host_ids[0]]
        hosts = {**state.snapshot.hosts, host.id: replace(host, max_cpu_centi=host.cpu_usage_centi)}
        smaller = replace(state, snapshot=replace(state.snapshot, hosts=hosts))
        everybody_stays = {one.id: _unyielding(one) for one in state.leases.values()}
        yield "promise-broken", replace(smaller, leases=everybody_stays), made


def _unyielding(lease: Lease) -> Lease:
    """The lease if nobody could make it leave, and nobody knew when it ends."""
    if lease.state is not LeaseState.RUNNING:
        return lease
    return replace(lease, terms=replace(lease.terms, type=LeaseType.DC_NON_PREEMPTABLE, duration_s=None))


def _moving(state: ClusterState, made: Plan) -> set[int]:
    """Leases that are started or sent out, or for which room is made."""
    making_room = [opened.preemption for opened in state.preemptions] + list(made.preemptions)
    acted = {one.lease_id for one in made.actions if one.kind not in STILL}
    return acted | {one.preemptor_lease_id for one in making_room}


def _spoiled_lease(state: ClusterState, made: Plan, lease: Lease) -> Iterator[Spoiled]:
    vm = state.snapshot.vms[lease.vm_ids[0]]
    waits = lease.state is LeaseState.WAITING and lease.verdict is Verdict.ACCEPTED
    if waits and (lease.terms.start_at_s or 0) > state.now_s:
        early = deploy(vm.id, 0, lease_id=lease.id)
        yield "too-early", state, replace(made, actions=(*made.actions, early))
    if (
        lease.state is LeaseState.RUNNING
        and (lease.left_at(state.now_s) or 2) > 1
        and not state.reservations.get(lease.id)
    ):
        stop = Action("stop", ActionKind.STOP, vm.id, lease.id, WHY, host_id=vm.host_id)
        yield "no-preemption", state, replace(made, actions=(*made.actions, stop))


EXPECTED = {
    "booked-hosts", "malformed-booking", "nothing-booked", "past-deadline", "too-short", "not-at-start",
    "promise-broken", "contrary-verdicts", "too-early", "no-preemption", "suspended-too-often",
}  # fmt: skip


def test_real_plans_pass_and_spoiled_ones_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Violation] = []
    missed: list[tuple[str, tuple[Violation, ...]]] = []
    caught: Counter[str] = Counter()

    def watched(state: ClusterState, made: Plan, books: Books, rules: RecountRules) -> tuple[Violation, ...]:
        violations = verify(state, made, books, rules)
        found.extend(violations)
        for code, spoiled_state, spoiled_plan in spoiled(state, made):
            caught[code] += 1
            broken = verify(spoiled_state, spoiled_plan, rules=rules)
            if code not in {violation.code for violation in broken}:
                missed.append((code, broken))
        return violations

    monkeypatch.setattr("one_preempt.core.verify.recounter.verify", watched)
    for seed in range(10):
        chance = random.Random(seed)
        rules = TimeSettings(
            backfilling=chance.choice(("none", "easy", "conservative")), overrun=chance.choice(("keep", "stop"))
        )
        cloud = build_cloud(SITE, keeps_logs=True)
        cycle = simulated_cycle(simulation_settings(Settings(time=rules)), cloud, "moml")
        Simulator(cloud, cycle, drawn_workload(chance), (), 20_000).run()
    assert found == []
    assert missed == []
    assert caught.keys() == EXPECTED, EXPECTED - caught.keys()
