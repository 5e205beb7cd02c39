"""Other readings of PEMP12: when are advance reservations bound to nodes, and to which?"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from one_preempt.core.energy.policy import EnergyPolicy, Occasion, SupplyDecision, SupplyQuestion


class OtherwiseBound(Struct, frozen=True):
    """A policy under which reservations are bound otherwise.

    `at_start`: it is asked about one a boot before its start, and not as soon as it arrives. `packed`: as under GESP to
    free nodes with the most leases, and not with the fewest.
    """

    policy: EnergyPolicy
    at_start: bool = False
    packed: bool = False

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
        """See `EnergyPolicy`."""
        return self.at_start or self.policy.puts_off

    @property
    def strands(self) -> bool:
        """See `EnergyPolicy`."""
        return self.policy.strands

    def decide(self, question: SupplyQuestion) -> SupplyDecision:
        """What the policy says, where it is put off at the last moment at which waking helps."""
        due_s = question.start_s - question.power.boot_s
        if self.at_start and question.occasion is Occasion.ARRIVAL and question.now_s < due_s:
            return SupplyDecision(ask_again_s=due_s)
        decision = self.policy.decide(question)
        return replace(decision, packed=True) if self.packed else decision
