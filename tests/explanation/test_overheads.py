from __future__ import annotations

from io import StringIO

from msgspec.structs import replace
from rich.console import Console

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.overhead.rates import OverheadRates
from one_preempt.explanation.overheads import learned_overheads, overhead_tables, overheads_document
from tests.scenario_reader import NOW_S, SYSTEM_DATASTORE, play

CONFIGURED = OverheadRates(suspend_mib_per_s=100.0)


def state_with(*observed: ObservedOverhead) -> ClusterState:
    state = play({"hosts": {0: {}}, "vms": {}}).state
    return replace(state, observed_overheads=observed)


def shown(state: ClusterState) -> str:
    written = StringIO()
    console = Console(file=written, width=120)
    for part in overhead_tables(learned_overheads(state, CONFIGURED), state):
        console.print(part)
    return written.getvalue()


def test_where_nothing_was_observed_there_is_nothing_to_show() -> None:
    assert shown(state_with()) == ""
    assert overheads_document(learned_overheads(state_with(), CONFIGURED)) == []


def test_what_is_used_stands_beside_what_is_configured() -> None:
    saves = [ObservedOverhead(OverheadKind.SUSPEND, 1, SYSTEM_DATASTORE, 1000, 100, NOW_S)] * 5
    boot = ObservedOverhead(OverheadKind.BOOT, 1, 7, 1000, 9, NOW_S)
    state = state_with(*saves, boot)
    # 10 ms a MiB configured and 100 ms observed make 55 ms; one boot is too few.
    assert overheads_document(learned_overheads(state, CONFIGURED)) == [
        {
            "operation": "boot", "datastore_id": 7, "observations": 1,
            "configured": 40.0, "used": 40.0, "unit": "s",
        },
        {
            "operation": "suspend", "datastore_id": SYSTEM_DATASTORE, "observations": 5,
            "configured": 100.0, "used": 18.182, "unit": "MiB/s",
        },
    ]  # fmt: skip
    lines = shown(state).splitlines()
    assert any(all(word in line for word in ("suspend", "100 system", "100.0 MiB/s", "18.2 MiB/s")) for line in lines)


def test_where_nothing_is_to_be_learned_what_is_configured_is_used() -> None:
    saves = [ObservedOverhead(OverheadKind.SUSPEND, 1, SYSTEM_DATASTORE, 1000, 100, NOW_S)] * 5
    [told] = learned_overheads(state_with(*saves), CONFIGURED, learns=False)
    assert (told.observations, told.used) == (5, told.configured)


def test_a_live_migration_is_compared_with_the_copy_that_is_configured() -> None:
    live = ObservedOverhead(OverheadKind.LIVE_MIGRATE, 1, SYSTEM_DATASTORE, 1000, 100, NOW_S)
    [learned] = learned_overheads(state_with(live), OverheadRates(copy_mib_per_s=50.0))
    assert (learned.configured, learned.used) == (50.0, 50.0)
