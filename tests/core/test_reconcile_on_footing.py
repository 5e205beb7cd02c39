"""Whatever happens between two readings: reconciled on the footing of the last one is as reconciled from scratch."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.core.admission.rules import AdmissionRules, BeyondRights, GroupRights, LeaseRule, VmMatch
from one_preempt.core.model.lease import LeaseType
from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind, Plan
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from one_preempt.core.model.virtual_machine import LcmState, LockLevel, VirtualMachine, VmState
from one_preempt.core.reconcile import Reconciliation, reconcile
from tests.core.admission.lease_requests import NOW_S
from tests.core.admission.lease_requests import vm as requested
from tests.core.reconciled_twice import ReconciledTwice
from tests.core.recounted_cluster import host, running

STEPS = 25
HOSTS = 3
RULES = AdmissionRules(
    rules=(
        LeaseRule("dear", VmMatch(attributes={"KIND": "dear"}), may_preempt=True),
        LeaseRule("cheap", VmMatch(attributes={"KIND": "cheap"}), type=LeaseType.BE_SUSPENDABLE),
    ),
    rights=(GroupRights("all", group="users", may_claim=tuple(LeaseType)[:3], max_leases=3, max_duration_s=600),),
)
CLAIMS: tuple[Mapping[str, str] | None, ...] = (
    None,
    {"TYPE": "BE-SUSPENDABLE"},
    {"TYPE": "BE-CANCELLABLE", "DURATION": "300"},
    {"TYPE": "BE-SUSPENDABLE", "DURATION": "900"},
    {"TYPE": "BE-SUSPENDABLE", "NAME": "pair", "SIZE": "2"},
    {"TYPE": "BE-CANCELLABLE", "NAME": "pair", "SIZE": "2"},
    {"TYPE": "DC-MIGRATABLE", "START": "+00:05:00", "DURATION": "120"},
    {"TYPE": "DC-MIGRATABLE", "START": "now"},
    {"TYPE": "DC-MIGRATABLE", "DEADLINE": "2026-12-01T09:03:00Z", "DURATION": "60"},
    {"TYPE": "nothing"},
)
ON_HOSTS = (
    LcmState.BOOT, LcmState.RUNNING, LcmState.RUNNING, LcmState.SAVE_STOP, LcmState.SAVE_SUSPEND, LcmState.MIGRATE,
    LcmState.BOOT_FAILURE, LcmState.EPILOG, LcmState.HOTPLUG,
)  # fmt: skip
ELSEWHERE = (VmState.PENDING, VmState.HOLD, VmState.STOPPED, VmState.UNDEPLOYED, VmState.DONE, VmState.CLONING)
KINDS = (*ActionKind, *[ActionKind.STOP, ActionKind.SUSPEND] * 6)


class World:
    """VMs, and what is known of them, to which arbitrary things happen."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.vms: dict[int, VirtualMachine] = {}
        self.unreadable: dict[int, VirtualMachine] = {}
        self.hosts = {number: host(number) for number in range(HOSTS)}
        self.actions: dict[str, ActionRecord] = {}
        self.store = MemoryLeaseStore()
        self.now_s = NOW_S

    def snapshot(self) -> PoolSnapshot:
        return PoolSnapshot(
            self.now_s, "7.4.0", 0, RaftState.SOLO, dict(self.hosts), dict(sorted(self.vms.items())),
            unreadable_vm_ids=frozenset(self.unreadable),
        )  # fmt: skip

    def happen(self) -> None:
        """Between no and four things."""
        self.now_s += self.chance.choice((0, 1, 3, 3, 30, 200))
        self.vms.update(self.unreadable)
        self.unreadable.clear()
        for _ in range(self.chance.randrange(5)):
            self.chance.choice(
                (self._come, self._come, self._move, self._move, self._move, self._go, self._write, self._change_hands,
                 self._act, self._act, self._forget_action, self._answer, self._book, self._hide, self._change_host,
                 self._lock)
            )()  # fmt: skip

    def _one(self) -> VirtualMachine | None:
        return self.chance.choice(list(self.vms.values())) if self.vms else None

    def _come(self) -> None:
        vm_id = max(self.vms, default=0) + 1
        claim = self.chance.choice(CLAIMS)
        for number in range(int(claim.get("SIZE", "1")) if claim else 1):
            new = requested(vm_id + number, claim)
            if claim is None and self.chance.random() < 0.5:
                new = replace(new, user_template={"KIND": (self.chance.choice(("dear", "cheap")),)})
            self.vms[new.id] = new
            if self.chance.random() < 0.1:
                return

    def _move(self) -> None:
        vm = self._one()
        if vm is None:
            return
        at_rest = VmState.SUSPENDED if self.chance.random() < 0.3 else VmState.ACTIVE
        state = self.chance.choice((at_rest, at_rest, *self.chance.sample(ELSEWHERE, 2)))
        if state in (VmState.ACTIVE, VmState.SUSPENDED):
            like = running_on(vm, self.chance.randrange(HOSTS), self.now_s)
            lcm_state = self.chance.choice(ON_HOSTS) if state is VmState.ACTIVE else LcmState.LCM_INIT
            self.vms[vm.id] = replace(like, state=state, lcm_state=lcm_state)
        else:
            self.vms[vm.id] = replace(vm, state=state, lcm_state=LcmState.LCM_INIT)

    def _go(self) -> None:
        vm = self._one()
        if vm is not None:
            del self.vms[vm.id]

    def _hide(self) -> None:
        vm = self._one()
        if vm is not None and self.chance.random() < 0.3:
            self.unreadable[vm.id] = self.vms.pop(vm.id)

    def _write(self) -> None:
        """Its owner changes the LEASE attribute, or the scheduler's own words come back."""
        vm = self._one()
        if vm is None:
            return
        template = dict(vm.user_template)
        claim = self.chance.choice(CLAIMS)
        if self.chance.random() < 0.3:
            template["LEASE_STATUS"] = (f"suspended in place for lease {self.chance.randrange(5)}",)
        elif claim is None:
            template.pop("LEASE", None)
        else:
            template["LEASE"] = (dict(claim),)
        self.vms[vm.id] = replace(vm, user_template=template)

    def _lock(self) -> None:
        vm = self._one()
        if vm is not None:
            locked = vm.lock_level is LockLevel.NONE
            self.vms[vm.id] = replace(
                vm, lock_level=LockLevel.MANAGE if locked else LockLevel.NONE, lock_owner_uid=0 if locked else None
            )

    def _change_hands(self) -> None:
        vm = self._one()
        if vm is not None:
            self.vms[vm.id] = replace(vm, uid=self.chance.choice((5, 6)))

    def _change_host(self) -> None:
        number = self.chance.randrange(HOSTS)
        self.hosts[number] = replace(self.hosts[number], cpu_usage_centi=self.chance.randrange(400))

    def _act(self) -> None:
        vm = self._one()
        if vm is None:
            return
        kind = self.chance.choice(KINDS)
        action_id = f"{self.now_s}/{kind}/{vm.id}"
        attempts, outcome = self.chance.choice(
            ((0, None), (1, Outcome.ACCEPTED), (1, self.chance.choice(list(Outcome))))
        )
        self.actions[action_id] = ActionRecord(
            action_id, kind, vm.id, vm.id, self.chance.choice((None, "1@7")), vm.host_id, None,
            self.chance.choice(("overrun", "made-room")), "test", self.now_s, attempts, outcome, self.now_s,
        )  # fmt: skip

    def _answer(self) -> None:
        """A lease is told what becomes of its START."""
        lease_id = self._recorded()
        if lease_id is not None:
            given = VerdictGiven(lease_id, self.chance.choice((Verdict.ACCEPTED, Verdict.REFUSED)), "because")
            self.store.record_plan(Plan(self.now_s, "moml", verdicts=(given,)))

    def _book(self) -> None:
        lease_id = self._recorded()
        if lease_id is not None:
            stay = Reservation(lease_id, self.now_s + 10, self.now_s + 50, (0,), firm=self.chance.random() < 0.5)
            stays = (stay,) if self.chance.random() < 0.7 else ()
            self.store.record_plan(Plan(self.now_s, "moml", bookings=(Booking(lease_id, stays),)))

    def _recorded(self) -> int | None:
        records = self.store.leases()
        return self.chance.choice(records).id if records else None

    def _forget_action(self) -> None:
        if self.actions:
            del self.actions[self.chance.choice(list(self.actions))]


def running_on(vm: VirtualMachine, host_id: int, now_s: int) -> VirtualMachine:
    stay = replace(running(vm.id, host_id).history[-1], running_start_at_s=now_s - 1, start_at_s=now_s - 2)
    return replace(vm, history=(stay,))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("beyond_rights", BeyondRights)
def test_whatever_happens_a_footing_changes_nothing(seed: int, beyond_rights: BeyondRights) -> None:
    world, rules = World(seed), dataclasses.replace(RULES, beyond_rights=beyond_rights)
    twice = ReconciledTwice(rules)
    for _ in range(STEPS):
        world.happen()
        snapshot, now_s = world.snapshot(), world.now_s
        ledger = replace(world.store.load(now_s), open_actions=dict(sorted(world.actions.items())))
        made: Reconciliation = reconcile(snapshot, ledger, rules, now_s, twice.at_s)
        assert not list(twice.differences(snapshot, ledger, made.state))
        world.store.apply(replace(made.changes, closed_actions=()))
        for closed in made.changes.closed_actions:
            del world.actions[closed.id]
