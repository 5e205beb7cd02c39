"""Owners, administrators, faults and time at random: the books stay right, and the same seed tells the same story."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from one_preempt.simulation.simulated_cloud.calls.vm_actions import LEGAL
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.durations import Operation
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.faults import Fault, FaultPlan, Misbehaviour
from one_preempt.simulation.simulated_cloud.furnishing import numa_nodes
from one_preempt.simulation.simulated_cloud.objects import ONEADMIN

if TYPE_CHECKING:
    from collections.abc import Callable

PCI = {"SHORT_ADDRESS": "02:00.0", "ADDRESS": "0000:02:00:0", "VENDOR": "10de", "DEVICE": "0863", "CLASS": "0302"}
TEMPLATES = [
    'CPU = "1"\nMEMORY = "1024"\n',
    'CPU = "2.5"\nMEMORY = "4096"\nNIC = [ NETWORK = "net" ]\n',
    'CPU = "1"\nMEMORY = "512"\nPCI = [ VENDOR = "10de" ]\n',
    'CPU = "1"\nVCPU = "2"\nMEMORY = "256"\nTOPOLOGY = [ PIN_POLICY = "THREAD" ]\n',
]
ACTIONS = sorted(LEGAL)
KIND_ACTIONS = ("stop", "suspend", "resume", "resume", "undeploy", "poweroff", "release", "resched")


def crowded_cloud(seed: int = 0) -> SimulatedCloud:
    """Three hosts with devices and NUMA, two users, a quota, and faults by chance."""
    faults = FaultPlan(seed, [Fault(operation, count=None, probability=0.05) for operation in Operation])
    faults.add(Fault(Operation.SAVE, Misbehaviour.SLOW, count=None, probability=0.1))
    cloud = SimulatedCloud(faults=faults)
    cloud.add_datastore("system", total_mib=12_000)
    cloud.add_network("net", size=6)
    for name in ("a", "b", "c"):
        cloud.add_host(name, pci_devices=[dict(PCI)], numa_nodes=numa_nodes(2, 2))
    group = cloud.add_group("project")
    for name in ("alice", "carol"):
        cloud.add_user(name, group.id)
    cloud.user_quota(ONEADMIN, 2, 'VM = [ RUNNING_CPU = "8" ]')
    return cloud


def do_something(cloud: SimulatedCloud, dice: random.Random) -> None:
    """One call by somebody on some VM, accepted or refused, or a while of waiting."""
    caller = cloud.caller(dice.choice([0, 0, 2, 3]))
    living = [vm.id for vm in cloud.vms.values() if vm.state.name != "DONE"] or [0]
    vm_id, host_id = dice.choice(living), dice.randrange(3)
    calls: list[tuple[int, Callable[[], object]]] = [
        (3, lambda: cloud.vm_allocate(caller, dice.choice(TEMPLATES), dice.random() < 0.3)),
        (8, lambda: cloud.vm_deploy(ONEADMIN, vm_id, host_id, dice.random() < 0.3)),
        (6, lambda: cloud.vm_action(caller, dice.choice(ACTIONS), vm_id)),
        (10, lambda: cloud.vm_action(ONEADMIN, dice.choice(KIND_ACTIONS), vm_id)),
        (5, lambda: cloud.vm_migrate(ONEADMIN, vm_id, host_id, dice.random() < 0.5, False, -1, dice.randrange(3))),
        (4, lambda: cloud.vm_recover(ONEADMIN, vm_id, dice.choice([0, 1, 2, 2, 2, 4]))),
        (1, lambda: cloud.vm_recover(ONEADMIN, vm_id, 3)),
        (1, lambda: cloud.vm_lock(caller, vm_id, dice.randrange(1, 5))),
        (2, lambda: cloud.vm_unlock(ONEADMIN, vm_id)),
        (1, lambda: cloud.vm_chown(ONEADMIN, vm_id, dice.choice([0, 2, 3]), -1)),
        (1, lambda: cloud.host_status(ONEADMIN, host_id, dice.choice([0, 0, 0, 1, 2]))),
        (1, lambda: cloud.kill_host(host_id)),
        (2, lambda: cloud.revive_host(host_id, dice.random() < 0.5)),
        (15, lambda: cloud.advance(dice.uniform(0, 40))),
        (10, lambda: cloud.advance(dice.uniform(0, 5))),
    ]
    weights, choices = zip(*calls, strict=True)
    with contextlib.suppress(OnedError):
        dice.choices(choices, weights)[0]()


def live(seed: int, steps: int) -> SimulatedCloud:
    """A cloud after a life of `steps`."""
    cloud, dice = crowded_cloud(seed), random.Random(seed)
    for _ in range(steps):
        do_something(cloud, dice)
    return cloud


def test_the_books_are_right_after_every_step_of_many_lives() -> None:
    passed: set[int | None] = set()
    for seed in range(15):
        cloud, dice = crowded_cloud(seed), random.Random(seed)
        for step in range(200):
            do_something(cloud, dice)
            assert cloud.audit() == [], f"seed {seed}, step {step}: {cloud.history_log[-1]}"
        cloud.settle()
        assert cloud.audit() == []
        passed |= {change.new_lcm_state for change in cloud.state_changes}
    assert len(passed) > 35


def test_the_same_seed_tells_the_same_story_and_another_a_different_one() -> None:
    first, again, other = live(5, 300), live(5, 300), live(6, 300)
    assert first.state_changes == again.state_changes
    assert first.history_log == again.history_log
    assert first.overcommits == again.overcommits
    assert first.state_changes != other.state_changes


def test_every_accepted_call_is_in_the_log_with_caller_and_time_and_refused_ones_are_not() -> None:
    cloud = crowded_cloud()
    carol = cloud.caller(3)
    vm_id = cloud.vm_allocate(carol, TEMPLATES[0])
    cloud.advance(3)
    cloud.vm_action(carol, "hold", vm_id)
    cloud.advance(1)
    with pytest.raises(OnedError):
        cloud.vm_action(carol, "stop", vm_id)
    told = [(call.method, call.uid, call.arguments, call.at_ms) for call in cloud.history_log[-2:]]
    start_ms = cloud.clock.now_ms - 4000
    assert told == [
        ("vm_allocate", 3, (TEMPLATES[0],), start_ms),
        ("vm_action", 3, ("hold", vm_id), start_ms + 3000),
    ]


def test_observers_hear_every_change_in_order() -> None:
    cloud = crowded_cloud()
    cloud.faults.clear()
    heard: list[tuple[int, int | None]] = []
    cloud.on_transition(lambda change: heard.append((change.new_state, change.new_lcm_state)))
    vm_id = cloud.vm_allocate(ONEADMIN, TEMPLATES[0])
    cloud.vm_deploy(ONEADMIN, vm_id, 0)
    cloud.settle()
    cloud.host_status(ONEADMIN, 1, 1)
    assert heard == [(1, 0), (3, 0), (3, 1), (3, 2), (3, 3), (4, None)]


class CloudLife(RuleBasedStateMachine):
    """Hypothesis chooses the calls; the recount must never find anything."""

    def __init__(self) -> None:
        super().__init__()
        self.cloud = crowded_cloud()
        self.cloud.faults.clear()

    def attempt(self, call: Callable[..., int], *arguments: object) -> None:
        """A call that may be refused, never crash."""
        with contextlib.suppress(OnedError):
            call(*arguments)

    @rule(template=st.sampled_from(TEMPLATES), hold=st.booleans(), uid=st.sampled_from([0, 2, 3]))
    def allocate(self, template: str, hold: bool, uid: int) -> None:
        self.attempt(self.cloud.vm_allocate, self.cloud.caller(uid), template, hold)

    @precondition(lambda self: self.cloud.vms)
    @rule(data=st.data(), host_id=st.integers(0, 2), enforce=st.booleans())
    def deploy(self, data: st.DataObject, host_id: int, enforce: bool) -> None:
        self.attempt(self.cloud.vm_deploy, ONEADMIN, self.some_vm(data), host_id, enforce)

    @precondition(lambda self: self.cloud.vms)
    @rule(data=st.data(), action=st.sampled_from(ACTIONS))
    def act(self, data: st.DataObject, action: str) -> None:
        self.attempt(self.cloud.vm_action, ONEADMIN, action, self.some_vm(data))

    @precondition(lambda self: self.cloud.vms)
    @rule(data=st.data(), host_id=st.integers(0, 2), live=st.booleans(), kind=st.integers(0, 2))
    def migrate(self, data: st.DataObject, host_id: int, live: bool, kind: int) -> None:
        self.attempt(self.cloud.vm_migrate, ONEADMIN, self.some_vm(data), host_id, live, False, -1, kind)

    @precondition(lambda self: self.cloud.vms)
    @rule(data=st.data(), operation=st.integers(0, 5))
    def recover(self, data: st.DataObject, operation: int) -> None:
        self.attempt(self.cloud.vm_recover, ONEADMIN, self.some_vm(data), operation)

    @precondition(lambda self: self.cloud.vms)
    @rule(data=st.data(), uid=st.sampled_from([0, 2, 3]), gid=st.sampled_from([-1, 0, 1, 100]))
    def chown(self, data: st.DataObject, uid: int, gid: int) -> None:
        self.attempt(self.cloud.vm_chown, ONEADMIN, self.some_vm(data), uid, gid)

    @rule(operation=st.sampled_from(sorted(Operation)), misbehaviour=st.sampled_from(sorted(Misbehaviour)))
    def plan_fault(self, operation: Operation, misbehaviour: Misbehaviour) -> None:
        self.cloud.faults.add(Fault(operation, misbehaviour))

    @rule(host_id=st.integers(0, 2), status=st.integers(0, 2))
    def set_host(self, host_id: int, status: int) -> None:
        self.cloud.host_status(ONEADMIN, host_id, status)

    @rule(host_id=st.integers(0, 2), dies=st.booleans(), survived=st.booleans())
    def host_power(self, host_id: int, dies: bool, survived: bool) -> None:
        if dies:
            self.cloud.kill_host(host_id)
        else:
            self.cloud.revive_host(host_id, survived)

    @rule(duration_s=st.sampled_from([0, 0.5, 3, 20, 100]))
    def wait(self, duration_s: float) -> None:
        self.cloud.advance(duration_s)

    def some_vm(self, data: st.DataObject) -> int:
        """Any VM that was ever created."""
        return data.draw(st.sampled_from(sorted(self.cloud.vms)))

    @invariant()
    def the_books_are_right(self) -> None:
        assert self.cloud.audit() == []


TestCloudLife = CloudLife.TestCase
TestCloudLife.settings = settings(max_examples=40, stateful_step_count=40)
