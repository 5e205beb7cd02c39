"""Another reading of PEMP12: when are advance reservations bound to nodes?"""

from __future__ import annotations

from dataclasses import dataclass

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
