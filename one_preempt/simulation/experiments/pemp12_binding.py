"""Other readings of PEMP12: when are advance reservations bound to nodes, and to which?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from one_preempt.core.energy.policy import EnergyPolicy, Occasion, SupplyDecision, SupplyQuestion


@dataclass(frozen=True, slots=True)
class BoundAtStart:
    """A policy that is asked about a reservation a boot before its start, and not as soon as it arrives."""

    policy: EnergyPolicy
    puts_off: bool = True

    @property
    def name(self) -> str:
        """That of the policy."""
        return self.policy.name

    @property
    def description(self) -> str:
        """That of the policy."""
        return self.policy.description

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """What the policy says, at the last moment at which waking helps."""
        due_s = question.start_s - question.power.boot_s
        if question.occasion is Occasion.ARRIVAL and question.now_s < due_s:
            return SupplyDecision(ask_again_s=due_s)
        return self.policy.decide(question)


@dataclass(frozen=True, slots=True)
class Packed:
    """A policy that binds reservations as GESP does: to free nodes with the most leases, and not with the fewest."""

    policy: EnergyPolicy

    @property
    def name(self) -> str:
        """That of the policy."""
        return self.policy.name

    @property
    def description(self) -> str:
        """That of the policy."""
        return self.policy.description

    @property
    def puts_off(self) -> bool:
        """That of the policy."""
        return self.policy.puts_off

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """What the policy says, packed."""
        return replace(self.policy.decide(question), packed=True)
