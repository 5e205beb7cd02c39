"""What users write is remembered within bounds, and forgetting it changes no answer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.matching import datastores, networks
from one_preempt.core.matching.expressions import known_expressions as expressions
from one_preempt.core.matching.expressions.known_expressions import Expressions
from one_preempt.core.matching.expressions.rank import parse_rank
from one_preempt.core.matching.expressions.requirements import parse_requirement
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.virtual_machine import Nic
from tests.core.matching.small_cloud import cloud, host, matchmaker, network, vm


def test_expressions_that_were_read_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "MOST_CHARACTERS", 1000)
    known = Expressions()
    for number in range(500):
        required, rank = f"ID = {number:010}", f"ID * {number:010}"
        assert known.requirement("SCHED_REQUIREMENTS", required) == parse_requirement(required)
        assert known.rank(rank) == parse_rank(rank)
        assert "cannot be read" in known.rank_problem("SCHED_RANK", f"ID ID {number:010}", uid=5)
        held = [*known._requirements, *known._ranks]
        assert sum(map(len, held)) <= 1000


@pytest.mark.parametrize("module", [datastores, networks])
def test_what_was_found_by_them_does_not_pile_up(monkeypatch: pytest.MonkeyPatch, module: object) -> None:
    monkeypatch.setattr(module, "MOST_ANSWERS", 3)
    maker = matchmaker(cloud([host(0)], networks=[network(1)]))
    for number in range(20):
        wish = f"ID < {100 + number}"
        asking = replace(vm(1), nics=(Nic(0, None, True, wish),), sched_datastore_requirements=f"ID < {101 + number}")
        maker.snapshot.vms[1] = asking  # type: ignore[index]
        assert maker.place(asking, maker.new_room()) == Placement(1, 0, 100, nics=((0, 1),))
    kept = maker._datastores._found if module is datastores else maker._networks._found
    assert len(kept) <= 3
