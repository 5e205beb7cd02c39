"""What a host has is written down when it is seen first and when it changes, and not in every cycle."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.model.host import HostCapacity
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.reconcile import reconcile
from tests.core.recounted_cluster import NOW_S, cluster, host

KNOWN = HostCapacity(0, NOW_S - 60, 200, 4 << 20, 200, 4 << 20)
SIZES = ("max_cpu_centi", "max_memory_kib", "total_cpu_centi", "total_memory_kib")


def written(known: dict[int, HostCapacity], **sizes: Any) -> tuple[HostCapacity, ...]:
    seen = replace(host(0), **sizes)
    return reconcile(
        cluster([seen], []).snapshot, Ledger(host_capacities=known), AdmissionRules(), NOW_S
    ).changes.host_capacities


def test_what_is_known_is_not_written_again() -> None:
    assert written({0: KNOWN}) == ()
    assert written({}) == (replace(KNOWN, observed_at_s=NOW_S),)


@pytest.mark.parametrize("size", SIZES)
def test_whatever_changes_is_written(size: str) -> None:
    assert written({0: KNOWN}, **{size: 100}) == (replace(KNOWN, observed_at_s=NOW_S, **{size: 100}),)


def test_a_host_that_is_offline_keeps_what_is_known_of_it() -> None:
    assert written({0: KNOWN}, **dict.fromkeys(SIZES, 0)) == ()
