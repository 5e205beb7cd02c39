"""PEMP's rule bases that the sensitivity table compares: the paper does not print its own but for one rule.

Each is the shipped one (`core/energy/fuzzy/rule_base.py`) with some decisions or the peaks of risk turned. All are
monotone in risk and keep the published rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct, field
from msgspec.structs import replace

from one_preempt.core.energy.fuzzy.engine import FuzzyEngine, partition
from one_preempt.core.energy.fuzzy.rule_base import ENGINE, RISK_PEAKS
from one_preempt.core.energy.pemp import PreemptionAware
from one_preempt.core.energy.policy import EnergyPolicy

AS_SHIPPED = "as-shipped"


class RuleBase(Struct, frozen=True):
    """Decisions by (utilization, risk) and peaks of risk that differ from the shipped ones."""

    decisions: Mapping[tuple[str, str], str] = field(default_factory=dict)
    risk_peaks: tuple[Fraction, ...] = tuple(RISK_PEAKS.values())

    @property
    def engine(self) -> FuzzyEngine:
        """The whole base."""
        rules = tuple(
            replace(rule, then=self.decisions.get((rule.first, rule.second), rule.then)) for rule in ENGINE.rules
        )
        return replace(ENGINE, second=partition(dict(zip(RISK_PEAKS, self.risk_peaks, strict=True))), rules=rules)


_UTILIZATIONS = tuple(ENGINE.first)
RULE_BASES: Mapping[str, RuleBase] = {
    AS_SHIPPED: RuleBase(),
    # Very high risk is where the mean wait of the queue is what was promised, as V's definition suggests.
    "even-risk": RuleBase(risk_peaks=(Fraction(0), Fraction(1, 3), Fraction(2, 3), Fraction(1))),
    "no-consolidation": RuleBase({(used, "VLR"): "AP" for used in _UTILIZATIONS}),
    "less-consolidation": RuleBase(
        dict(zip(((used, "VLR") for used in _UTILIZATIONS), ("MC", "MC", "LC", "AP", "AP"), strict=True))
    ),
    "more-preemption": RuleBase(
        {(used, risk): then for used in ("VL", "L") for risk, then in (("LR", "MC"), ("HR", "AP"), ("VHR", "QP"))}
    ),
}


def with_rule_base(policy: EnergyPolicy, name: str) -> EnergyPolicy:
    """PEMP with the rule base of that name; any other policy as it is."""
    return replace(policy, engine=RULE_BASES[name].engine) if isinstance(policy, PreemptionAware) else policy
