"""The daemon is killed after each write and each call of a preemption: the end is the same, and nothing is done twice.

In one process, so that every boundary can be tried; that a process which is really killed leaves no more behind than
these writes and calls is tried by the crash tests in `tests/stories`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.configuration.settings import parse_settings
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind
from one_preempt.ports import CallResult
from one_preempt.scheduling_cycle import SchedulingCycle
from one_preempt.simulation.emulator.described_cloud import described_cloud
from one_preempt.simulation.emulator.description import Description
from one_preempt.simulation.simulated_cloud.states import LcmState, VmState
from one_preempt.simulation.simulator.enactor import SimulatedEnactor
from one_preempt.simulation.simulator.pool_reader import SimulatedPoolReader
from one_preempt.surroundings import Surroundings
from tests.mortal import AFTER, NEVER, Killed, Mortal
from tests.stories.world import CYCLE_S, SETTINGS, description

WRITES = ("apply", "record_plan", "begin_attempt", "record_result")
IN_PLACE = {"suspend_in_place": True, "methods": {"BE-SUSPENDABLE": ["suspend", "stop"]}}
TERMINATION_IS_TOLD = "terminated to make room"
# How often a step is repeated, and a HOLD that comes too late, are nobody's loss.
NOT_COUNTED = (ActionKind.MESSAGE, ActionKind.HOLD)
Calls = Counter[tuple[str, int]]


class MortalDaemon(Mortal):
    """The daemon over a cloud with a host that the lease fills, and perhaps others as large. It dies once, and a cycle
    later another one is started."""

    def __init__(
        self, dies_at: int, victims: dict[str, Any] | None, lease: dict[str, Any], other_hosts: int = 0
    ) -> None:
        super().__init__(NEVER)
        hosts = [{"name": f"node{n}", "cpu": lease["SIZE"], "memory_mib": 8192} for n in range(1 + other_hosts)]
        told = description(hosts, instant=True)
        self.cloud = described_cloud(msgspec.convert(told, Description))
        content = SETTINGS if victims is None else SETTINGS | {"victims": victims}
        self.settings = parse_settings(msgspec.json.encode(content).decode(), "the crash test")
        self.store = MemoryLeaseStore()
        self.make_mortal(self.store, WRITES)
        self.calls: Calls = Counter()
        self.told: dict[int, str] = {}
        self.start()
        self.lease = self.submit("eva", lease)
        self.until(lambda: self.run(self.lease))
        self.cycle()
        self.calls.clear()
        self.passed, self.dies_at = 0, dies_at

    def start(self) -> None:
        """A process that knows nothing but its ledger."""
        enactor = SimulatedEnactor(self.cloud)
        perform = enactor.perform

        def noted(action: Action) -> CallResult:
            result = perform(action)
            if result.outcome is Outcome.ACCEPTED and action.kind not in NOT_COUNTED:
                self.calls[action.kind.value, action.vm_id] += 1
                if action.kind is ActionKind.TERMINATE:
                    (told,) = self.cloud.vms[action.vm_id].user_template["LEASE_STATUS"]
                    self.told[action.vm_id] = str(told)
            return result

        enactor.perform = noted  # type: ignore[method-assign]
        self.make_mortal(enactor, ("perform",))
        around = Surroundings(SimulatedPoolReader(self.cloud), self.store, enactor, self.cloud.clock)
        self.daemon = SchedulingCycle(around, policies(self.settings), admission_rules(self.settings))

    def cycle(self) -> None:
        self.cloud.run_until_ms(self.cloud.clock.now_ms + 1000 * CYCLE_S)
        try:
            report = self.daemon.run()
        except Killed:
            self.start()
            self.cycle()
            return
        assert report.violations == ()
        assert [result for _, result in report.results if result.outcome is not Outcome.ACCEPTED] == []

    def until(self, done: Callable[[], bool], at_most: int = 12) -> None:
        for _ in range(at_most):
            if done():
                return
            self.cycle()
        assert done(), self.states()

    def submit(self, user: str, lease: dict[str, Any]) -> list[int]:
        uid = next(one.id for one in self.cloud.users.values() if one.name == user)
        terms = ", ".join(f'{name}="{value}"' for name, value in lease.items())
        template = f'CPU="1"\nMEMORY="512"\nLEASE=[{terms}]\n'
        return [self.cloud.vm_allocate(self.cloud.caller(uid), template) for _ in range(lease["SIZE"])]

    def submit_plain(self, count: int) -> list[int]:
        """VMs of paul's, whom nobody makes leave."""
        uid = next(one.id for one in self.cloud.users.values() if one.name == "paul")
        return [self.cloud.vm_allocate(self.cloud.caller(uid), 'CPU="1"\nMEMORY="512"\n') for _ in range(count)]

    def run(self, vm_ids: Sequence[int]) -> bool:
        """Do all of them run?"""
        return all(self.cloud.vms[vm_id].lcm_state is LcmState.RUNNING for vm_id in vm_ids)

    def end(self, vm_ids: Sequence[int]) -> None:
        for vm_id in vm_ids:
            self.act("terminate", vm_id)

    def act(self, action: str, vm_id: int) -> None:
        """Its owner does that."""
        self.cloud.vm_action(self.cloud.caller(self.cloud.vms[vm_id].uid), action, vm_id)

    def states(self) -> list[str]:
        return [
            f"{vm_id} {vm.state.name} {vm.lcm_state.name} {vm.lock}" for vm_id, vm in sorted(self.cloud.vms.items())
        ]


def leaves_and_returns(dies_at: int, size: int, victims: dict[str, Any] | None) -> MortalDaemon:
    """A gang leaves for a request of two VMs, and returns when that is over."""
    lease = {"TYPE": "BE-SUSPENDABLE", "NAME": "sweep", "SIZE": size}
    daemon = MortalDaemon(dies_at, victims, lease)
    request = daemon.submit("lea", {"TYPE": "DC-NON-PREEMPTABLE", "NAME": "assay", "SIZE": 2})
    daemon.until(lambda: daemon.run(request))
    daemon.cycle()
    daemon.end(request)
    daemon.until(lambda: daemon.run(daemon.lease))
    # The cycles in which nothing is left to do: what is done twice is done here.
    daemon.cycle()
    daemon.cycle()
    return daemon


def leaves_while_paused_in_part(dies_at: int) -> MortalDaemon:
    """The same of a gang of which one VM is powered off and one suspended: these return once they are resumed."""
    daemon = MortalDaemon(dies_at, None, {"TYPE": "BE-SUSPENDABLE", "NAME": "sweep", "SIZE": 3})
    runs, *paused = daemon.lease
    daemon.act("poweroff", paused[0])
    daemon.act("suspend", paused[1])
    request = daemon.submit("lea", {"TYPE": "DC-NON-PREEMPTABLE", "NAME": "assay", "SIZE": 3})
    daemon.until(lambda: daemon.run(request))
    daemon.cycle()
    daemon.end(request)
    daemon.until(lambda: daemon.run([runs]))
    daemon.cycle()
    daemon.cycle()
    assert [daemon.cloud.vms[vm_id].state for vm_id in paused] == [VmState.UNDEPLOYED, VmState.STOPPED]
    for vm_id in paused:
        daemon.act("resume", vm_id)
    daemon.until(lambda: daemon.run(daemon.lease))
    daemon.cycle()
    return daemon


def starts_elsewhere_while_others_leave(dies_at: int) -> MortalDaemon:
    """While a VM is saved for a request another host comes free: the request starts there, and the VM returns."""
    daemon = MortalDaemon(dies_at, None, {"TYPE": "BE-SUSPENDABLE", "NAME": "sweep", "SIZE": 1}, other_hosts=1)
    guests = daemon.submit_plain(1)
    daemon.until(lambda: daemon.run(guests))
    daemon.cycle()
    daemon.calls.clear()
    daemon.cloud.durations = replace(daemon.cloud.durations, save_s=60)
    request = daemon.submit("lea", {"TYPE": "DC-NON-PREEMPTABLE", "NAME": "assay", "SIZE": 1})
    daemon.until(lambda: all(daemon.cloud.vms[vm_id].lcm_state is LcmState.SAVE_STOP for vm_id in daemon.lease))
    daemon.end(guests)
    daemon.until(lambda: daemon.run(request))
    assert all(daemon.cloud.vms[vm_id].state is VmState.ACTIVE for vm_id in daemon.lease)
    daemon.until(lambda: daemon.run(daemon.lease), at_most=20)
    daemon.cycle()
    daemon.cycle()
    stays = {vm_id: {one.host_id for one in daemon.cloud.vms[vm_id].history} for vm_id in (*request, *daemon.lease)}
    assert all(stays[one].isdisjoint(stays[other]) for one in request for other in daemon.lease), stays
    return daemon


def is_terminated(dies_at: int) -> MortalDaemon:
    """A gang is terminated for a request of two VMs."""
    daemon = MortalDaemon(dies_at, None, {"TYPE": "BE-CANCELLABLE", "NAME": "sweep", "SIZE": 2})
    request = daemon.submit("lea", {"TYPE": "DC-NON-PREEMPTABLE", "NAME": "assay", "SIZE": 2})
    daemon.until(lambda: daemon.run(request))
    daemon.cycle()
    daemon.cycle()
    assert [daemon.cloud.vms[vm_id].state for vm_id in daemon.lease] == [VmState.DONE] * 2
    assert all(TERMINATION_IS_TOLD in daemon.told[vm_id] for vm_id in daemon.lease), daemon.told
    return daemon


PLAYS: dict[str, tuple[Callable[[int], MortalDaemon], dict[str, int]]] = {
    "stopped": (lambda dies_at: leaves_and_returns(dies_at, 3, None), {"stop": 3, "deploy": 5}),
    "suspended in place": (
        lambda dies_at: leaves_and_returns(dies_at, 2, IN_PLACE),
        {"suspend": 2, "lock": 2, "deploy": 2, "unlock": 2, "resume": 2},
    ),
    "paused in part": (leaves_while_paused_in_part, {"stop": 2, "undeploy": 1, "deploy": 6}),
    "elsewhere meanwhile": (starts_elsewhere_while_others_leave, {"stop": 1, "deploy": 2}),
    "terminated": (is_terminated, {"terminate": 2, "deploy": 2}),
}


@pytest.mark.parametrize("way", PLAYS)
def test_killed_after_any_write_or_call_a_preemption_ends_as_if_nothing_had_been(way: str) -> None:
    play, calls = PLAYS[way]
    undisturbed = play(NEVER)
    assert Counter(name for name, _ in undisturbed.calls.elements()) == calls
    for dies_at in range(AFTER, undisturbed.passed + 1, AFTER):
        daemon = play(dies_at)
        assert daemon.has_died, f"boundary {dies_at} was never reached"
        assert daemon.states() == undisturbed.states(), f"killed at boundary {dies_at}"
        assert daemon.calls == undisturbed.calls, f"killed at boundary {dies_at}"
        assert daemon.cloud.audit() == [], f"killed at boundary {dies_at}"
