"""Random stories of power: whatever happens, nobody loses a host, no policy gets more than it said, and what a decision
remembers changes no plan."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.decide import decide
from one_preempt.core.energy.policy import EnergyPolicy, Occasion, SupplyDecision, SupplyQuestion
from one_preempt.core.model.power_sequence import PowerPhase, PowerSequence
from one_preempt.core.model.written_time import utc_text
from one_preempt.policy_registry import ENERGY_POLICIES
from one_preempt.scheduling_cycle import CycleReport
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.host_power import PowerMishap
from one_preempt.simulation.simulated_cloud.host_power_state import HostPowerState
from one_preempt.simulation.simulated_cloud.states import HostState, HostStatus
from tests.power.power_play import RULES, PowerPlay

HOSTS = 4
_WITHOUT_POWER = (HostPowerState.OFF, HostPowerState.SHUTTING_DOWN)


@dataclass
class Overheard:
    """A policy that remembers what it was asked and what it answered since the last look."""

    policy: EnergyPolicy
    name: str = "overheard"
    description: str = ""
    said: list[tuple[SupplyQuestion, SupplyDecision]] = field(default_factory=list)

    @property
    def puts_off(self) -> bool:
        return self.policy.puts_off

    @property
    def strands(self) -> bool:
        return self.policy.strands

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        nodes = question.nodes
        assert min(nodes.on, nodes.free, nodes.preemptable, nodes.bootable, nodes.booting, nodes.unscheduled) >= 0
        assert nodes.on + nodes.bootable <= HOSTS
        decision = self.policy.decide(question)
        self.said.append((question, decision))
        return decision

    def allowed(self, occasion: Occasion, count: Callable[[SupplyDecision], int]) -> int:
        return sum(count(decision) for question, decision in self.said if question.occasion is occasion)


class Story(PowerPlay):
    """A play in which a seed decides what happens."""

    def __init__(self, seed: int, policy: EnergyPolicy) -> None:
        self.chance = random.Random(seed)
        self.overheard = Overheard(policy)
        rules = replace(RULES, policy=self.overheard, floor=self.chance.choice((0, 1)), most_booting=2, period_s=60)
        # Enabled later than the slowest shutdown that was given up on is over.
        rules = replace(rules, enable_after_s=100, boot_timeout_s=400, shutdown_timeout_s=120, first_pause_s=60)
        super().__init__(HOSTS, rules)
        self.vms: list[int] = []
        self.handled: set[int] = set()

    def happen(self) -> None:
        acts = [self.arrive, self.arrive, self.leave, self.leave, self.reserve, self.mishap, self.mended, self.restart]
        self.chance.choice([*acts, self.intrude, self.by_hand, self.pause])()
        for _ in range(self.chance.choice((1, 3, 12))):
            self.overheard.said.clear()
            before = {one.host_id: one for one in self.store.power_sequences()}
            self.pass_time(self.pace_s)
            self.compare(before, {one.host_id: one for one in self.store.power_sequences()})

    def cycle(self) -> CycleReport:
        """What one decision remembers for the next changes no plan."""
        report = super().cycle()
        said, state = tuple(self.overheard.said), report.state
        assert state is not None
        assert decide(state, self.policies) == report.plan
        self.overheard.said[:] = said
        return report

    def compare(self, before: dict[int, PowerSequence], after: dict[int, PowerSequence]) -> None:
        """No more hosts began to sleep or to wake for the queue than the policy said."""
        begun: dict[str, int] = {}
        for host_id, sequence in after.items():
            known = before.get(host_id)
            is_new = known is None or known.phase is not sequence.phase
            if sequence.phase in (PowerPhase.DISABLING, PowerPhase.SWITCHING_ON) and is_new:
                begun[sequence.reason_code] = begun.get(sequence.reason_code, 0) + 1
        said = self.overheard
        assert begun.get("idle", 0) <= said.allowed(Occasion.IDLE, lambda one: one.switch_off)
        assert begun.get("consolidated", 0) <= said.allowed(Occasion.PERIODIC, lambda one: one.consolidate)

    @property
    def now_s(self) -> int:
        return self.cloud.clock.now_s()

    def arrive(self) -> None:
        kinds = ["", 'TYPE = "BE-SUSPENDABLE", DURATION = "00:20:00"', 'TYPE = "DC-MIGRATABLE", DURATION = "01:00:00"']
        self.vms.append(self.submit(self.chance.choice((1, 2)), self.chance.choice(kinds), external=True))

    def reserve(self) -> None:
        start = utc_text(self.now_s + self.chance.choice((30, 200, 900)))
        self.vms.append(self.submit(2, f'TYPE = "DC-NON-PREEMPTABLE", START = "{start}", DURATION = "00:10:00"'))

    def leave(self) -> None:
        if self.vms:
            self.tried(lambda: self.end(self.vms.pop(self.chance.randrange(len(self.vms)))))

    def intrude(self) -> None:
        mine = self.submit(lease='TYPE = "BE-SUSPENDABLE", START = "2100-01-01T00:00:00Z"')
        self.vms.append(mine)
        host = self.chance.randrange(HOSTS)
        if self.machines.state(host).is_on:
            self.tried(lambda: self.cloud.vm_deploy(self.user("oneadmin"), mine, host, True, -1, ""))

    def by_hand(self) -> None:
        host, status = self.chance.randrange(HOSTS), self.chance.choice(list(HostStatus))
        if self.machines.state(host).is_on and not self.cloud.hosts[host].vm_ids:
            self.cloud.host_status(self.user("oneadmin"), host, status)
            self.handled.add(host)

    def mishap(self) -> None:
        self.machines.mishaps[self.chance.randrange(HOSTS)] = self.chance.choice(list(PowerMishap))

    def mended(self) -> None:
        self.machines.mishaps.clear()

    def restart(self) -> None:
        self.start_daemon()

    def pause(self) -> None:
        self.store.set_paused(not self.store.is_paused(), self.now_s)

    def tried(self, act: Callable[[], object]) -> None:
        with suppress(OnedError):
            act()

    def judge(self) -> None:
        """Nobody lost his host; and none that administrators left alone is off without being OFFLINE."""
        assert self.machines.lost_guests == []
        for host in self.cloud.hosts.values():
            if host.id not in self.handled and self.machines.state(host.id) in _WITHOUT_POWER:
                assert host.state is HostState.OFFLINE, f"{host.name} is {host.state.name}, {self.phase(host.id)}"

    def all_is_mended(self) -> None:
        """Once nothing goes wrong any more and everybody is let in, everything starts."""
        self.machines.mishaps.clear()
        self.store.set_paused(False, self.now_s)
        for host in self.cloud.hosts.values():
            if host.state in (HostState.DISABLED, HostState.OFFLINE) and self.phase(host.id) is PowerPhase.AWAKE:
                self.machines.switch_on(host.name)
                self.cloud.host_status(self.user("oneadmin"), host.id, HostStatus.ENABLED)


@settings(derandomize=True, max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(ENERGY_POLICIES.all())))
def test_nobody_ever_loses_a_host_and_no_policy_is_exceeded(seed: int, name: str) -> None:
    story = Story(seed, ENERGY_POLICIES.all()[name])
    for _ in range(15):
        story.happen()
    story.all_is_mended()
    plain = story.submit(1)
    for vm_id in story.vms:
        story.tried(lambda vm_id=vm_id: story.end(vm_id))  # type: ignore[misc]
    story.until(lambda: story.host_of(plain) is not None, at_most_s=6000)
