"""Each host selection policy on three hosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from msgspec.structs import replace

from one_preempt.core.host_selection import custom, fixed, load_aware, packing, striping
from one_preempt.core.host_selection.selection import ByRank, HostSelection
from one_preempt.core.matching.expressions.attributes import AttributeTable
from one_preempt.core.matching.expressions.known_expressions import Expressions
from one_preempt.core.matching.expressions.rank import parse_rank
from one_preempt.core.matching.expressions.tokens import ExpressionError
from one_preempt.core.model.cluster_state import IntArray
from tests.core.matching.small_cloud import NO_LIMITS, cloud, host, matchmaker, vm

HOSTS = [
    host(0, attributes={"MONITORING/CAPACITY/FREE_CPU": ("10",)}),
    host(1, vm_ids=(8, 9), attributes={"CLUSTER_TEMPLATE/PRIORITY": ("5",)}),
    host(2, vm_ids=(7,), attributes={"MONITORING/CAPACITY/FREE_CPU": ("300",)}),
]


@pytest.mark.parametrize(
    ("policy", "host_ids"),
    [
        (packing.POLICY, [1, 2, 0]),
        (striping.POLICY, [0, 2, 1]),
        (load_aware.POLICY, [2, 0, 1]),
        (fixed.POLICY, [1, 2, 0]),
        (custom.by_expression("- ID"), [0, 1, 2]),
        (custom.POLICY, [2, 1, 0]),
        (custom.by_expression("no rank at all"), [2, 1, 0]),
    ],
    ids=["packing", "striping", "load-aware", "fixed", "custom", "custom without a rank", "unreadable"],
)
def test_each_policy_has_its_order_and_the_highest_id_breaks_ties(policy: HostSelection, host_ids: list[int]) -> None:
    maker = matchmaker(cloud(HOSTS, [vm(1)]), replace(NO_LIMITS, host_selection=policy))

    assert maker.hosts.ids[maker.preference(vm(1))].tolist() == host_ids


@pytest.mark.parametrize("policy", [packing.POLICY, striping.POLICY, load_aware.POLICY, fixed.POLICY, custom.POLICY])
def test_every_policy_has_a_name_and_a_rank_that_can_be_read(policy: ByRank) -> None:
    assert policy.name in {"packing", "striping", "load-aware", "fixed", "custom"}
    assert parse_rank(policy.expression) is not None


@dataclass(frozen=True)
class OddFirst:
    """Goes by no expression."""

    name: str = "odd-first"
    description: str = "hosts of odd ids first"
    follows_load: bool = False

    def scores(self, hosts: AttributeTable, expressions: Expressions) -> IntArray:
        """Odd ids first."""
        return hosts.numbers("ID").astype(np.int64) % 2


def test_a_selection_of_ones_own_needs_no_expression() -> None:
    maker = matchmaker(cloud(HOSTS, [vm(1)]), replace(NO_LIMITS, host_selection=OddFirst()))

    assert maker.hosts.ids[maker.preference(vm(1))].tolist() == [1, 2, 0]


def test_an_unreadable_rank_can_be_found_out_before_it_is_used() -> None:
    with pytest.raises(ExpressionError):
        parse_rank("no rank at all")
