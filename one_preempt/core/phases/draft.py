"""The plan while it is being made: what the phases share and add to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct, field

from one_preempt.core.availability.lanes import ExclusiveLanes
from one_preempt.core.availability.timeline import ObservedRoom, Stay, Timeline
from one_preempt.core.host_power.hosts_to_come import expecting, with_hosts_to_come
from one_preempt.core.host_power.power_watch import PowerWatch
from one_preempt.core.matching.devices import assign_devices
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.matching.room import Room
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.memory.lease_concerns import Concern, LeaseConcerns
from one_preempt.core.model.cluster_state import ClusterState, IntArray
from one_preempt.core.model.lease import Lease, PreemptionMethod
from one_preempt.core.model.plan import (
    Action,
    ActionKind,
    Placement,
    Plan,
    Preemption,
    PreemptionEnd,
    Reason,
    Refusal,
    Victim,
)
from one_preempt.core.model.reservation import Booking, Verdict, VerdictGiven
from one_preempt.core.model.resources import NO_RESOURCES, Resources
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.overhead.learned import LearnedRates
from one_preempt.core.phases.attempts import Attempts
from one_preempt.core.phases.devices_and_groups.matched_draft import MatchedDraft
from one_preempt.core.phases.images.image_draft import ImageDraft
from one_preempt.core.phases.power.power_draft import PowerDraft
from one_preempt.core.phases.preempting.choices_made import ChoicesMade
from one_preempt.core.phases.reservations.found_giving_way import FoundGivingWay
from one_preempt.core.policies import Policies
from one_preempt.core.queue_turn import startable
from one_preempt.core.quotas import QuotaBook
from one_preempt.core.reconciliation.in_place import InPlace, in_place
from one_preempt.core.victims import writes_memory

_DEPLOY = ActionKind.DEPLOY


class Preparation(Struct, frozen=True):
    """From when on others leave for a reservation; `slots` are (lane, start, end) of what takes turns meanwhile."""

    begin_s: int
    slots: tuple[tuple[int, int, int], ...]


class PlanDraft(Struct, dict=True):
    """What has been decided so far in this cycle, and the room that is left. Sets and keys are ids of leases."""

    # What the decision starts from; `state` shows hosts that are on their way up, too. `memory` is what the decision
    # before left, and what this one leaves; `concerns` tells which leases concern a phase, `attempts` what was refused
    # or failed before.
    state: ClusterState
    policies: Policies
    memory: DecisionMemory
    concerns: LeaseConcerns
    matchmaker: Matchmaker
    attempts: Attempts
    # What is free now, and from now on; `rates` are the configured overheads as observations refined them. `in_place`
    # are the VMs that we suspended on their hosts.
    room: Room
    quotas: QuotaBook
    rates: LearnedRates
    timeline: Timeline
    in_place: InPlace
    # Who takes no part in anything new: the `busy` are in a preemption, or were just placed (`starting`); for the
    # `reserved` their reservation decides, not the queue; the `warned` will have to leave soon.
    busy_leases: set[int] = field(default_factory=set)
    starting: set[int] = field(default_factory=set)
    reserved: set[int] = field(default_factory=set)
    warned: set[int] = field(default_factory=set)
    # Which of the reserved only wait for the stay that they were promised: nothing has to be done for it.
    undisturbed: dict[int, Stay] = field(default_factory=dict)
    # Why a lease got nothing, and whether others' leaving would help; what its owner is told.
    waits: dict[int, Reason] = field(default_factory=dict)
    lacking_room: set[int] = field(default_factory=set)
    statuses: dict[int, str] = field(default_factory=dict)
    # What the plan will say. `leaving` are the ids of the actions that send victims out, in order.
    actions: list[Action] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)
    ended: list[PreemptionEnd] = field(default_factory=list)
    advised: list[Preemption] = field(default_factory=list)
    advised_actions: list[Action] = field(default_factory=list)
    bookings: dict[int, Booking] = field(default_factory=dict)
    verdicts: dict[int, VerdictGiven] = field(default_factory=dict)
    wake_at_s: int | None = None
    # None where host power concerns nobody, and where no images are staged.
    power: PowerDraft | None = None
    images: ImageDraft | None = None
    # What must be done before reservations start.
    preparations: dict[int, Preparation] = field(default_factory=dict)

    @classmethod
    def begin(cls, state: ClusterState, policies: Policies, memory: DecisionMemory) -> PlanDraft:
        """An empty plan over the room that oned's accounting leaves."""
        power = PowerDraft.begin(state, policies.power, memory)
        if power is None:
            # What is seen next does not follow what was seen last.
            memory.power_watch = PowerWatch()
        else:
            state = expecting(state, power.to_come)
        changed = memory.concerns.observe(state)
        observed = state.observed_overheads if policies.learns_overheads else ()
        rates = memory.learner.learned(observed, policies.overhead, state.snapshot.own_disks_ids)
        resting = in_place(state.snapshot, state.actions, memory.concerns.ordered(Concern.SUSPENDED))
        matchmaker = _matchmaker(memory, state, policies)
        draft = cls(
            state=state,
            policies=policies,
            memory=memory,
            concerns=memory.concerns,
            matchmaker=matchmaker,
            attempts=Attempts(state, policies.enactment),
            room=matchmaker.new_room(),
            quotas=QuotaBook(state.snapshot.directory),
            rates=rates,
            timeline=_timeline(
                memory,
                matchmaker,
                memory.rooms.observed(state, policies, rates, resting.vm_ids, changed),
                state,
                power,
                # Images come to hosts, and not to numbers of them.
                names_hosts=policies.images is not None and policies.images.ahead_s is not None,
            ),
            in_place=resting,
            busy_leases=set(state.half_seen_leases),
            power=power,
            images=None if policies.images is None else ImageDraft(state, policies.images, _up_at_s(state, power)),
        )
        for lease in memory.concerns.ordered(Concern.SAVED):
            for vm in draft.members(lease):
                if vm.is_being_saved:
                    draft.hold_memory_image(vm)
        return draft

    def members(self, lease: Lease) -> list[VirtualMachine]:
        """The VMs of a lease that exist, oldest first."""
        return list(map(self.state.snapshot.vms.__getitem__, lease.vm_ids))

    def startable(self, lease: Lease) -> Sequence[VirtualMachine]:
        """The members that are to be started: none while one that waits may not be, for a gang starts together."""
        known = self.memory.queue.startable_of(lease)
        return known if known is not None else startable(lease, self.members(lease))

    def ways_out(self, lease: Lease) -> tuple[PreemptionMethod, ...] | None:
        """How each of its VMs would be taken off its host for what is firm; None where it would not.

        Nor would one whose DEADLINE was accepted in this cycle.
        """
        if lease.id in self.verdicts and lease.terms.deadline_at_s is not None and self.is_accepted(lease):
            return None
        return self.memory.ways_out.of(self.state, self.policies, lease)

    def gives_way(self, lease: Lease) -> bool:
        """It would be taken off its hosts for what is firm."""
        return self.ways_out(lease) is not None

    @cached_property
    def overrun_rows(self) -> Sequence[int]:
        """The rows of hosts on which somebody is expected to end any second; found once a decision."""
        any_second_s = self.state.now_s + 1
        first = [stays[0] for stays in self.timeline.stays.values() if stays[0].end_s == any_second_s]
        return sorted({row for stay in first if not stay.firm for row in stay.host_rows})

    @cached_property
    def resting_room(self) -> IntArray:
        """What of the room of VMs that rest on their hosts may go to what was promised a start, shape (hosts, 2)."""
        return np.zeros(self.state.hosts.free.shape, dtype=np.int64)

    @cached_property
    def lanes(self) -> ExclusiveLanes:
        """Into which is laid what must be done before reservations start."""
        return ExclusiveLanes(self.state.now_s)

    @cached_property
    def giving_way(self) -> FoundGivingWay:
        """Who gives way to what is firm, as far as it was asked."""
        return FoundGivingWay()

    @cached_property
    def choices(self) -> ChoicesMade:
        """How often victims were chosen."""
        return ChoicesMade()

    @cached_property
    def matched(self) -> MatchedDraft:
        """What is known of devices, cores and places beside VM groups."""
        return MatchedDraft(self.state, self.matchmaker)

    @property
    def has_matched(self) -> bool:
        """Was anything asked yet of what is `matched`?"""
        return "matched" in self.__dict__

    def hold_rooms(self, placements: Iterable[Placement], leaving: Iterable[tuple[int, VirtualMachine]]) -> None:
        """Keep all that VMs which are to come will need, less what VMs that are leaving their hosts will give for it.

        `leaving` are (host id, VM). What they give beyond the need is not handed on before it is seen to be free.
        """
        needed: dict[int, Resources] = {}
        given: dict[int, Resources] = {}
        leaving = list(leaving)
        for host_id, vm in leaving:
            given[host_id] = given.get(host_id, NO_RESOURCES) + vm.resources
        for placement in placements:
            vm = self.state.snapshot.vms[placement.vm_id]
            offered = self.room.free_devices(placement.host_id, [leaver.id for _, leaver in leaving])
            devices = assign_devices(vm.pci_requests, offered) or ()
            makes_room = [leaver for host_id, leaver in leaving if host_id == placement.host_id]
            self.room.reserve(placement, [device.address for device in devices], makes_room)
            needed[placement.host_id] = needed.get(placement.host_id, NO_RESOURCES) + vm.resources
        for host_id, resources in needed.items():
            self.room.hold(host_id, NO_RESOURCES - resources.at_most(given.get(host_id, NO_RESOURCES)))

    def hold_memory_images(self, victims: Iterable[Victim]) -> None:
        """Keep the space for the memory of victims that will be saved; of those that are being saved it is kept."""
        for victim in victims:
            vm = self.state.snapshot.vms.get(victim.vm_id)
            if vm is not None and writes_memory(vm, victim.method) and not vm.is_being_saved:
                self.hold_memory_image(vm)

    def hold_memory_image(self, vm: VirtualMachine) -> None:
        """Keep the space for the memory of a VM that is stopped or suspended."""
        if vm.last_history is not None:
            self.room.hold_space(vm.last_history.datastore_id, vm.last_history.host_id, vm.memory_mib)

    def hold_whole_host(self, host_id: int) -> None:
        """Keep all that is free on a host: what is to come there is not known in this cycle."""
        row = self.state.hosts.index_by_id.get(host_id)
        if row is not None:
            cpu_centi, memory_mib = (max(0, int(amount)) for amount in self.room.free[row])
            self.room.hold(host_id, Resources(cpu_centi, memory_mib))

    def deploy(self, placement: Placement, vm: VirtualMachine, lease: Lease, action_id: str, reason: Reason) -> Action:
        """The action that puts one VM on its host, and nothing else: the caller adds it.

        Where it takes the room of what rests there, oned would not find it.
        """
        beside = False
        if self.in_place.occasions:
            row = self.state.hosts.index_by_id[placement.host_id]
            beside = bool(self.resting_room[row].any() and (self.room.free[row] < 0).any())
        return Action(
            id=action_id,
            kind=_DEPLOY,
            vm_id=vm.id,
            lease_id=lease.id,
            reason=reason,
            host_id=placement.host_id,
            datastore_id=placement.datastore_id,
            nics=placement.nics,
            expected_states=(vm.state_name,),
            expected_uid=vm.uid,
            enforce_capacity=not beside,
        )

    def book(self, booking: Booking) -> None:
        """Have the reservations of a lease written down, where they are not what is written already."""
        if booking.reservations == self.state.reservations.get(booking.lease_id, ()):
            self.bookings.pop(booking.lease_id, None)
        else:
            self.bookings[booking.lease_id] = booking
        if self.images is not None:
            self.images.promises_changed(booking.lease_id)

    def judge(self, lease: Lease, verdict: Verdict, text: str) -> None:
        """Say to a lease what becomes of its wish for a time."""
        self.verdicts[lease.id] = VerdictGiven(lease.id, verdict, text)
        if self.images is not None:
            self.images.promises_changed(lease.id)

    def is_accepted(self, lease: Lease) -> bool:
        """It was promised the time it asked for, before or in this cycle."""
        given = self.verdicts.get(lease.id)
        return (given.verdict if given is not None else lease.verdict) is Verdict.ACCEPTED

    def wake_by(self, at_s: int) -> None:
        """The next decision is due at `at_s` at the latest."""
        if at_s > self.state.now_s and (self.wake_at_s is None or at_s < self.wake_at_s):
            self.wake_at_s = at_s

    def remember(self) -> None:
        """Leave to the next decision what it may start from. The draft is complete."""
        self.memory.matchmaker, self.memory.timeline = self.matchmaker, self.timeline
        self.memory.undisturbed = self.undisturbed

    def plan(self) -> Plan:
        """The plan as a value."""
        leases, waits = self.state.leases, self.waits
        refusals = tuple([Refusal(leases[lease_id].vm_ids, lease_id, waits[lease_id]) for lease_id in sorted(waits)])
        plan = Plan(
            made_at_s=self.state.now_s,
            policy=self.policies.preemption.name,
            actions=tuple(self.actions),
            preemptions=tuple(self.preemptions),
            ended_preemptions=tuple(self.ended),
            refusals=refusals,
            advised=tuple(self.advised),
            advised_actions=tuple(self.advised_actions),
            bookings=tuple([booking for _, booking in sorted(self.bookings.items())]) if self.bookings else (),
            verdicts=tuple([verdict for _, verdict in sorted(self.verdicts.items())]) if self.verdicts else (),
            wake_at_s=self.wake_at_s,
        )
        if self.images is not None:
            plan = self.images.complete(plan)
        return plan if self.power is None else self.power.complete(plan)


def _up_at_s(state: ClusterState, power: PowerDraft | None) -> dict[int, int]:
    """When hosts that are not on can be, by their ids."""
    if power is None:
        return {}
    rows = np.flatnonzero(power.asleep | power.coming)
    return dict(zip(state.hosts.ids[rows].tolist(), power.up_at_s[rows].tolist(), strict=True))


def _matchmaker(memory: DecisionMemory, state: ClusterState, policies: Policies) -> Matchmaker:
    """The one of the decision before, where what it has matched still holds."""
    known = memory.matchmaker
    if known is not None and known.follow(state.snapshot, state.hosts, policies.match):
        return known
    read = None if known is None else known.expressions
    return Matchmaker(state.snapshot, state.hosts, policies.match, expressions=read)


def _timeline(
    memory: DecisionMemory,
    matchmaker: Matchmaker,
    room: ObservedRoom,
    state: ClusterState,
    power: PowerDraft | None,
    *,
    names_hosts: bool,
) -> Timeline:
    """What is free from now on: what was known before, told what has changed, or all of it anew.

    `names_hosts`: promises do so in any case, and not only where hosts differ.
    """
    alike_slots = None
    if power is not None and power.to_come.full:
        # These hosts are not like the others yet.
        any_time = bool(memory.concerns.all(Concern.ANY_TIME))
        room = with_hosts_to_come(room, state.hosts.ids, power.to_come, power.up_at_s, any_time=any_time)
    elif not names_hosts:
        alike_slots = memory.alike_hosts.slots(state, matchmaker, room)
    timeline = memory.take_timeline()
    if timeline is None or not timeline.can_follow(room, state.now_s):
        return Timeline(room, state.now_s, alike_slots)
    timeline.observe(room, state.now_s, alike_slots)
    return timeline
