"""What is remembered of hosts' power says what would be found from scratch, whatever happens between two readings."""

from __future__ import annotations

import random

import numpy as np
import pytest
from msgspec.structs import replace

from one_preempt.core.energy.power_rules import HostPattern, PowerMode, PowerRules
from one_preempt.core.host_power.hosts_to_come import HostsToCome, expecting, hosts_to_come
from one_preempt.core.host_power.observe_power import observe_power
from one_preempt.core.host_power.power_columns import PowerColumns
from one_preempt.core.host_power.power_watch import PowerWatch
from one_preempt.core.matching.host_table import changed_rows, host_table
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import Host, HostCapacity, HostState
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerStatus
from one_preempt.core.model.power_sequence import PowerPhase, PowerReport, PowerSequence, PowerStepKind
from one_preempt.core.model.virtual_machine import VirtualMachine
from tests.core.recounted_cluster import NOW_S, host, running

RULES = PowerRules(mode=PowerMode.ENFORCE, handed_over=(HostPattern("host-*"),))
ACCEPTED = PowerOutcome(PowerAnswer.ACCEPTED, "")


class World:
    """Hosts, VMs, sequences and readings in which a seed decides what happens."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_s = NOW_S
        self.hosts = {number: host(number) for number in range(5)}
        self.vms: dict[int, VirtualMachine] = {}
        self.sequences: dict[int, PowerSequence] = {}
        self.reports: dict[int, PowerReport] = {}
        self.capacities: dict[int, HostCapacity] = {}
        self.touched: set[int] = set()
        self.moved: set[int] = set()

    def happen(self) -> None:
        self.now_s += self.chance.choice((0, 1, 500))
        acts = (self.change_host, self.exchange_host, self.change_vm, self.change_sequence, self.change_sequence)
        self.chance.choice((*acts, self.read_power, self.know_capacity, self.forget_sequence))()

    def change_host(self) -> None:
        number = self.chance.choice(list(self.hosts))
        known, listed = self.hosts[number], self.chance.choice(((), (), (number,)))
        self.put_host(replace(known, state=self.chance.choice((*HostState, *[HostState.OFFLINE] * 9)), vm_ids=listed))

    def exchange_host(self) -> None:
        number = self.chance.randrange(6)
        if number in self.hosts and len(self.hosts) > 1:
            del self.hosts[number]
            self.touched.add(number)
        else:
            self.put_host(replace(host(number), name=f"{self.chance.choice(('host', 'other'))}-{number}"))

    def put_host(self, one: Host) -> None:
        self.hosts = dict(sorted({**self.hosts, one.id: one}.items()))
        self.touched.add(one.id)

    def change_vm(self) -> None:
        vm_id = self.chance.randrange(4)
        if vm_id in self.vms:
            del self.vms[vm_id]
        else:
            self.vms[vm_id] = running(vm_id, self.chance.randrange(6))
        self.moved.add(vm_id)

    def change_sequence(self) -> None:
        number, phase = self.chance.randrange(6), self.chance.choice((*PowerPhase, PowerPhase.ASLEEP))
        known = PowerSequence(number, f"host-{number}", phase, self.now_s, "idle", "nobody is on it")
        attempts, failures = self.chance.choice((0, 1)), self.chance.choice((0, 0, 2))
        outcome = self.chance.choice((None, Outcome.ACCEPTED)) if attempts else None
        known = replace(known, attempts=attempts, outcome=outcome, failures=failures, began_at_s=self.now_s * attempts)
        self.sequences = dict(sorted({**self.sequences, number: known}.items()))

    def forget_sequence(self) -> None:
        self.sequences.pop(self.chance.randrange(6), None)

    def read_power(self) -> None:
        number, status = self.chance.randrange(6), self.chance.choice((PowerStatus.ON, *PowerStatus))
        self.reports[number] = PowerReport(number, PowerStepKind.READ_POWER, ACCEPTED, self.now_s, status)

    def know_capacity(self) -> None:
        number = self.chance.randrange(6)
        self.capacities[number] = HostCapacity(
            number, self.now_s, self.chance.choice((200, 400)), 4 << 20, 400, 4 << 20
        )

    def snapshot(self, *, told: bool) -> PoolSnapshot:
        snapshot = PoolSnapshot(self.now_s, "7.4.0", 0, RaftState.SOLO, dict(self.hosts), dict(self.vms))
        vm_ids, host_ids = frozenset(self.moved), frozenset(self.touched)
        self.moved.clear()
        self.touched.clear()
        return replace(snapshot, changed_vm_ids=vm_ids, changed_host_ids=host_ids) if told else snapshot


def seen(to_come: HostsToCome, state: ClusterState) -> tuple[object, ...]:
    """All of it that decisions look at."""
    either, hosts = to_come.asleep | to_come.coming, expecting(state, to_come).hosts
    rooms = (to_come.room[either].tolist(), hosts.free.tolist(), hosts.capacity.tolist(), hosts.accepts_vms.tolist())
    times = (to_come.up_at_s(RULES, state.now_s)[either].tolist(), to_come.boot_s, to_come.due_s)
    return to_come.asleep.tolist(), to_come.coming.tolist(), rooms, times, hosts.hosts


@pytest.mark.parametrize("seed", range(40))
def test_remembered_is_as_from_scratch(seed: int) -> None:
    world, memory, watch = World(seed), DecisionMemory(), PowerWatch()
    table = None
    for _ in range(60):
        for _ in range(world.chance.choice((0, 1, 1, 3))):
            world.happen()
        snapshot = world.snapshot(told=world.chance.random() < 0.8)
        ledger = Ledger(power_sequences=dict(world.sequences), host_capacities=dict(world.capacities))
        reports = dict(world.reports)
        observed = observe_power(snapshot, ledger, reports, RULES, world.now_s, watch)
        assert observed == observe_power(snapshot, ledger, reports, RULES, world.now_s)
        for one in snapshot.hosts.values():
            there = {vm.id for vm in snapshot.vms.values() if vm.host_id == one.id}
            assert watch.guests.on(one) == there | set(one.vm_ids)
        if world.chance.random() < 0.5:
            world.sequences = dict(observed.known.sequences)

        table = host_table(snapshot.hosts, table, changed_rows(snapshot.hosts, table, None))
        state = ClusterState(world.now_s, snapshot, table, {}, {}, power=observed.known)
        memory.power_columns.observe(state, RULES)
        fresh = PowerColumns()
        fresh.observe(state, RULES)
        for name in (name for name in vars(fresh) if not name.startswith("_")):
            assert np.array_equal(getattr(memory.power_columns, name), getattr(fresh, name)), name
        memory.hosts_to_come = hosts_to_come(state, RULES, memory.hosts_to_come)
        assert seen(memory.hosts_to_come, state) == seen(hosts_to_come(state, RULES), state)
        if world.sequences and world.chance.random() < 0.3:
            # A decision notes what it begins; whether it is written down the next reading tells.
            world.change_sequence()
            number = world.chance.choice(list(world.sequences))
            memory.power_columns.note(world.sequences[number])
            if world.chance.random() < 0.5:
                del world.sequences[number]


def test_a_host_that_sleeps_is_looked_at_again_once_somebody_is_on_it() -> None:
    """Not only its own list tells: a VM may say so first."""
    watch = PowerWatch()
    asleep = PowerSequence(0, "host-0", PowerPhase.ASLEEP, NOW_S - 60, "idle", "nobody is on it")
    ledger = Ledger(power_sequences={0: asleep})
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {0: replace(host(0), state=HostState.OFFLINE)}, {})
    assert observe_power(snapshot, ledger, {}, RULES, NOW_S, watch).changed == ()
    assert watch.not_at_rest(ledger.power_sequences, NOW_S) == []

    came = replace(snapshot, vms={3: running(3, 0)}, changed_vm_ids=frozenset({3}), changed_host_ids=frozenset())
    (woken,) = observe_power(came, ledger, {}, RULES, NOW_S, watch).changed
    assert woken.phase is PowerPhase.SWITCHING_ON


def test_a_host_that_sleeps_is_looked_at_again_once_it_is_read_to_have_power() -> None:
    watch = PowerWatch()
    asleep = PowerSequence(0, "host-0", PowerPhase.ASLEEP, NOW_S - 60, "idle", "nobody is on it")
    ledger = Ledger(power_sequences={0: asleep})
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {0: replace(host(0), state=HostState.OFFLINE)}, {})
    assert observe_power(snapshot, ledger, {}, RULES, NOW_S, watch).changed == ()

    again = replace(snapshot, changed_vm_ids=frozenset(), changed_host_ids=frozenset())
    reading = PowerReport(0, PowerStepKind.READ_POWER, ACCEPTED, NOW_S, PowerStatus.ON)
    (up,) = observe_power(again, ledger, {0: reading}, RULES, NOW_S + 1, watch).changed
    assert up.phase is PowerPhase.ENABLING
