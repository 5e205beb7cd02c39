"""What the end of our own actions teaches, once, by oned's instants or a sharp look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.recorded.recorded_pool_reader import RecordedPoolReader
from one_preempt.configuration.chosen_policies import admission_rules
from one_preempt.core.model.ledger import ActionRecord, Ledger, LedgerChanges
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import ActionKind
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VmState
from one_preempt.core.overhead.observe import observe_overheads
from one_preempt.core.reconcile import reconcile
from one_preempt.core.reconciliation.settled_actions import SettledActions
from one_preempt.core.reconciliation.watch import Watch
from tests.scenario_reader import NOW_S, SYSTEM_DATASTORE, ledger_of, settings_of, snapshot_of

RECORDINGS = Path(__file__).parents[2] / "recordings"
Told = list[tuple[OverheadKind, int, int]]
STOPPED = {"state": "STOPPED", "last_host": 0, "running_end": -40}
RUNS = {"host": 0, "running_start": -90, "prolog_start": -100, "prolog_end": -90}


def play(
    vms: dict[int, dict[str, Any]],
    actions: dict[str, dict[str, Any]],
    before: dict[int, str] | None = None,
    shared: bool = True,
) -> tuple[PoolSnapshot, Ledger, dict[str, Any]]:
    """A snapshot and its ledger. Of a VM's stay `<name>` (an instant, seconds from now) lies where it says."""
    document = {
        "hosts": {0: {}, 1: {}},
        "datastores": {SYSTEM_DATASTORE: {"shared": shared}},
        "vms": {vm_id: {"user": "eva", **given} for vm_id, given in vms.items()},
        "ledger": {"actions": {name: {"host": 0, **given} for name, given in actions.items()}},
    }
    snapshot = snapshot_of(document)
    instants = ("running_start", "running_end", "prolog_start", "prolog_end", "epilog_end")
    changed = {}
    for vm_id, vm in snapshot.vms.items():
        told = {f"{name}_at_s": NOW_S + vms[vm_id][name] for name in instants if name in vms[vm_id]}
        stay = replace(vm.history[-1], sequence=vms[vm_id].get("sequence", 0), **told)
        changed[vm_id] = replace(vm, history=(stay,))
    snapshot = replace(snapshot, vms=changed)
    return snapshot, replace(ledger_of(document, snapshot), vm_states=before or {}), document


def changes_of(
    played: tuple[PoolSnapshot, Ledger, dict[str, Any]],
    last_at_s: int | None = None,
    heard: dict[tuple[int, str], int] | None = None,
) -> LedgerChanges:
    snapshot, ledger, document = played
    rules = admission_rules(settings_of(document))
    return reconcile(snapshot, ledger, rules, NOW_S, last_at_s, heard or {}).changes


def observed(
    vms: dict[int, dict[str, Any]],
    actions: dict[str, dict[str, Any]],
    *,
    before: dict[int, str] | None = None,
    shared: bool = True,
    last_at_s: int | None = None,
    heard: dict[tuple[int, str], int] | None = None,
) -> Told:
    """Of each operation that was learned its kind, the VM, and the seconds that are its own."""
    changes = changes_of(play(vms, actions, before, shared), last_at_s, heard)
    return [(one.kind, one.vm_id, one.took_s) for one in changes.observed_overheads]


def test_a_save_took_from_the_call_until_oned_says_so_whenever_it_is_looked_at() -> None:
    for last_at_s in (None, NOW_S - 900):
        changes = changes_of(
            play({1: {"memory": 2048, **STOPPED}}, {"x": {"kind": "stop", "vm": 1, "ago_s": 100}}), last_at_s
        )
        assert changes.observed_overheads == (
            ObservedOverhead(OverheadKind.SUSPEND, 1, SYSTEM_DATASTORE, 2048, 60, NOW_S - 40),
        )


def test_a_suspension_on_its_host_is_a_save_and_its_end_a_resume() -> None:
    vm = {"state": "SUSPENDED", "host": 0, "running_end": -5}
    suspend = {"x": {"kind": "suspend", "vm": 1, "ago_s": 65}}
    assert observed({1: vm}, suspend, before={1: "SAVE_SUSPEND"}) == [(OverheadKind.SUSPEND, 1, 60)]
    assert observed({1: vm}, suspend, before={1: "RUNNING"}) == [(OverheadKind.SUSPEND, 1, 60)]
    resume = {"x": {"kind": "resume", "vm": 1, "ago_s": 65}}
    heard = {(1, "RUNNING"): NOW_S - 5}
    assert observed({1: RUNS}, resume, before={1: "SUSPENDED"}, heard=heard) == [(OverheadKind.RESUME, 1, 60)]
    assert observed({1: RUNS}, resume, before={1: "POWEROFF"}, heard=heard) == []


def test_a_suspension_that_lasts_is_learned_when_it_begins_and_no_more() -> None:
    suspend = {"x": {"kind": "suspend", "vm": 1, "ago_s": 65}}
    played = play({1: {"state": "SUSPENDED", "host": 0, "running_end": -5}}, suspend, {1: "RUNNING"})
    store = MemoryLeaseStore(played[1])
    store.apply(changes_of(played))
    [learned] = store.load(NOW_S).observed_overheads
    assert learned.took_s == 60
    again = changes_of((played[0], replace(played[1], vm_states={1: "SUSPENDED"}), played[2]))
    woken = changes_of(play({1: {**RUNS, "running_end": -5}}, suspend, {1: "SUSPENDED"}))
    assert again.observed_overheads == woken.observed_overheads == ()


def test_a_shutdown_took_from_the_call_until_oned_says_so() -> None:
    vm = {"state": "UNDEPLOYED", "last_host": 0, "running_end": -5}
    assert observed({1: vm}, {"x": {"kind": "undeploy", "vm": 1, "ago_s": 25}}) == [(OverheadKind.SHUT_DOWN, 1, 20)]


def test_what_was_paused_teaches_nothing_and_is_in_nobodys_way_on_the_storage() -> None:
    out = {"last_host": 0, "running_end": -200}
    called = {name: {"kind": name, "vm": vm, "ago_s": 100} for vm, name in ((2, "stop"), (3, "undeploy"))}
    assert observed({2: {**out, "state": "STOPPED"}, 3: {**out, "state": "UNDEPLOYED"}}, called) == []
    leaving = {"host": 0, "state": "EPILOG_STOP", "running_end": -200}
    alone = observed({1: STOPPED}, {"x": {"kind": "stop", "vm": 1, "ago_s": 100}})
    actions = {"x": {"kind": "stop", "vm": 1, "ago_s": 100}, "y": {"kind": "stop", "vm": 2, "host": 0, "ago_s": 100}}
    assert observed({1: STOPPED, 2: leaving}, actions) == alone


def test_a_live_migration_ended_when_the_vm_began_to_run_where_it_is() -> None:
    vm = {"host": 0, "running_start": -30}
    assert observed({1: vm}, {"x": {"kind": "live-migrate", "vm": 1, "ago_s": 80}}) == [
        (OverheadKind.LIVE_MIGRATE, 1, 50)
    ]


def test_a_victim_that_was_migrated_teaches_to_save_to_copy_and_to_resume() -> None:
    vm = {"host": 0, "prolog_start": -80, "prolog_end": -50, "running_start": -50}
    action = {"3@1/migrate/1": {"kind": "migrate", "vm": 1, "ago_s": 100}}
    heard = {(1, "RUNNING"): NOW_S - 10}
    saved, resumed = (OverheadKind.SUSPEND, 1, 20), (OverheadKind.RESUME, 1, 40)
    assert observed({1: vm}, action, heard=heard) == [saved, resumed]
    assert observed({1: vm}, action, heard=heard, shared=False) == [saved, (OverheadKind.MIGRATE, 1, 30), resumed]


def test_a_migration_on_shared_storage_of_which_nothing_else_is_known_teaches_nothing() -> None:
    """It began to be copied before oned's answer was written down, so that nobody knows how long it was saved."""
    vm = {"host": 0, "prolog_start": -80, "prolog_end": -50, "running_start": -50}
    assert observed({1: vm}, {"3@1/migrate/1": {"kind": "migrate", "vm": 1, "ago_s": 70}}) == []


def test_what_is_stopped_on_its_hosts_own_disks_teaches_to_copy_with_its_disks() -> None:
    vm = {**STOPPED, "epilog_end": -10, "memory": 2048, "disks": [{"size": 3000}]}
    stop = {"x": {"kind": "stop", "vm": 1, "ago_s": 100}}
    saved = (OverheadKind.SUSPEND, 1, 60)
    assert observed({1: vm}, stop) == [saved]
    changes = changes_of(play({1: vm}, stop, shared=False))
    assert [(one.kind, one.memory_mib, one.took_s) for one in changes.observed_overheads] == [
        (OverheadKind.SUSPEND, 2048, 60),
        (OverheadKind.MIGRATE, 5048, 30),
    ]


def test_a_live_migration_copies_the_disks_too_where_the_storage_is_not_shared() -> None:
    vm = {"host": 0, "running_start": -30, "memory": 2048, "disks": [{"size": 3000}]}
    action = {"x": {"kind": "live-migrate", "vm": 1, "ago_s": 80}}
    for shared, size_mib in ((True, 2048), (False, 5048)):
        [learned] = changes_of(play({1: vm}, action, shared=shared)).observed_overheads
        assert (learned.kind, learned.memory_mib, learned.took_s) == (OverheadKind.LIVE_MIGRATE, size_mib, 50)


def test_a_migration_that_is_no_victims_teaches_nothing() -> None:
    vm = {"host": 0, "prolog_start": -80, "prolog_end": -50, "running_start": -50}
    assert observed({1: vm}, {"reschedule/1/1": {"kind": "migrate", "vm": 1, "ago_s": 100}}) == []


@pytest.mark.parametrize(
    ("before", "sequence", "told"),
    [
        ("STOPPED", 1, [(OverheadKind.RESUME, 1, 80)]),
        ("PROLOG_RESUME", 1, [(OverheadKind.RESUME, 1, 80)]),
        ("BOOT_STOPPED", 1, [(OverheadKind.RESUME, 1, 80)]),
        ("UNDEPLOYED", 1, [(OverheadKind.BOOT, 1, 80)]),
        ("BOOT_UNDEPLOY", 1, [(OverheadKind.BOOT, 1, 80)]),
        ("PENDING", 0, [(OverheadKind.BOOT, 1, 90)]),
        ("BOOT", 2, [(OverheadKind.BOOT, 1, 90)]),
        # Stopped and resumed by its owner, or deleted and made again: nobody can tell.
        ("PENDING", 1, []),
        ("", 0, []),
    ],
)
def test_a_start_teaches_what_it_was(before: str, sequence: int, told: Told) -> None:
    action = {"x": {"kind": "deploy", "vm": 1, "ago_s": 101}}
    heard = {(1, "RUNNING"): NOW_S - 10}
    assert observed({1: {"sequence": sequence, **RUNS}}, action, before={1: before}, heard=heard) == told


@pytest.mark.parametrize(
    ("looked_ago_s", "heard_ago_s", "told_s"),
    [
        (None, None, None),
        (2, None, 89),
        (8, None, 86),
        (9, None, None),
        (15, None, None),
        (15, 6, 84),
        (None, 6, 84),
        # Heard of an earlier run, or by a clock that is ahead.
        (15, 91, None),
        (15, -1, None),
        # The clock was set back since the last look.
        (-5, None, None),
    ],
)
def test_a_start_is_told_only_where_its_end_is_known_sharply(
    looked_ago_s: int | None, heard_ago_s: int | None, told_s: int | None
) -> None:
    heard = {} if heard_ago_s is None else {(1, "RUNNING"): NOW_S - heard_ago_s}
    last_at_s = None if looked_ago_s is None else NOW_S - looked_ago_s
    action = {"x": {"kind": "deploy", "vm": 1, "ago_s": 101}}
    told = observed({1: RUNS}, action, before={1: "STOPPED"}, last_at_s=last_at_s, heard=heard)
    assert [took_s for _, _, took_s in told] == ([] if told_s is None else [told_s])


@pytest.mark.parametrize(
    ("vm", "action"),
    [
        ({"state": "EPILOG_STOP", "host": 0, "running_end": -40}, {"ago_s": 100}),
        ({"host": 0, "running_end": 0}, {"ago_s": 100}),
        (STOPPED, {"ago_s": 100, "outcome": "unknown"}),
        ({**STOPPED, "running_end": -101}, {"ago_s": 100}),
        ({**STOPPED, "running_end": 30}, {"ago_s": 100}),
        ({"state": "STOPPED", "last_host": 0}, {"ago_s": 100}),
    ],
    ids=["under way", "fell back", "no answer", "ended before it began", "ends to come", "no end"],
)
def test_what_is_not_known_to_have_been_done_teaches_nothing(vm: dict[str, Any], action: dict[str, Any]) -> None:
    assert observed({1: vm}, {"x": {"kind": "stop", "vm": 1, **action}}) == []


def test_saves_on_one_storage_share_the_time_in_which_they_overlap() -> None:
    stops = {f"x{vm}": {"kind": "stop", "vm": vm, "ago_s": 100} for vm in (1, 2)}
    at_once = {1: STOPPED, 2: {**STOPPED, "last_host": 1}}
    assert [took_s for _, _, took_s in observed(at_once, stops)] == [30, 30]
    assert [took_s for _, _, took_s in observed(at_once, stops, shared=False)] == [60, 60]
    one_goes_on = {1: STOPPED, 2: {"host": 1, "state": "SAVE_STOP"}}
    assert observed(one_goes_on, {**stops, "x2": {**stops["x2"], "host": 1}}) == [(OverheadKind.SUSPEND, 1, 30)]
    one_is_being_carried = {1: STOPPED, 2: {"host": 1, "state": "EPILOG_STOP", "running_end": -80}}
    assert observed(one_is_being_carried, {**stops, "x2": {**stops["x2"], "host": 1}}) == [
        (OverheadKind.SUSPEND, 1, 50)
    ]


def test_what_ended_in_an_earlier_cycle_shared_the_storage_too() -> None:
    snapshot, ledger, document = play({1: STOPPED}, {"x": {"kind": "stop", "vm": 1, "ago_s": 100}})
    over = ObservedOverhead(OverheadKind.SUSPEND, 9, SYSTEM_DATASTORE, 512, 10, NOW_S - 80)
    elsewhere = replace(over, datastore_id=7)
    ledger = replace(ledger, observed_overheads=(over, elsewhere))
    assert [one.took_s for one in changes_of((snapshot, ledger, document)).observed_overheads] == [50]


def test_what_ended_in_an_earlier_cycle_shared_its_hosts_own_disk_too() -> None:
    on_another_host = {**STOPPED, "last_host": 1}
    vms = {1: STOPPED, 2: STOPPED, 3: on_another_host}
    snapshot, ledger, document = play(vms, {"x": {"kind": "stop", "vm": 1, "ago_s": 100}}, shared=False)
    over = ObservedOverhead(OverheadKind.SUSPEND, 2, SYSTEM_DATASTORE, 512, 10, NOW_S - 80)
    elsewhere, gone = replace(over, vm_id=3), replace(over, vm_id=9)
    ledger = replace(ledger, observed_overheads=(over, elsewhere, gone))
    assert [one.took_s for one in changes_of((snapshot, ledger, document)).observed_overheads] == [50]


def test_guests_that_shut_down_do_not_wait_for_each_other() -> None:
    vm = {"state": "UNDEPLOYED", "last_host": 0, "running_end": -5}
    actions = {f"x{vm}": {"kind": "undeploy", "vm": vm, "ago_s": 25} for vm in (1, 2)}
    assert [took_s for _, _, took_s in observed({1: vm, 2: vm}, actions)] == [20, 20]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(ends=st.lists(st.integers(-99, -1), min_size=1, max_size=6), begin_ago_s=st.integers(100, 200))
def test_the_shares_of_what_began_together_add_up_to_the_time_in_which_the_storage_was_busy(
    ends: list[int], begin_ago_s: int
) -> None:
    vms = {number: {**STOPPED, "running_end": end} for number, end in enumerate(ends)}
    stops = {f"x{number}": {"kind": "stop", "vm": number, "ago_s": begin_ago_s} for number in vms}
    took = [took_s for _, _, took_s in observed(vms, stops)]
    assert abs(sum(took) - (max(ends) + begin_ago_s)) <= len(ends)


def test_each_operation_is_learned_once_however_often_the_cycle_dies() -> None:
    snapshot, ledger, document = play({1: STOPPED}, {"x": {"kind": "stop", "vm": 1, "ago_s": 100}})
    store = MemoryLeaseStore(ledger)
    first = changes_of((snapshot, store.load(NOW_S), document))
    assert len(first.observed_overheads) == 1
    # Died before it was written: found out alike.
    assert changes_of((snapshot, store.load(NOW_S), document)) == first
    store.apply(first)
    assert changes_of((snapshot, store.load(NOW_S), document)).observed_overheads == ()
    assert store.load(NOW_S).observed_overheads == first.observed_overheads


def test_a_refused_call_teaches_nothing() -> None:
    snapshot, ledger, document = play({1: STOPPED}, {"x": {"kind": "stop", "vm": 1, "ago_s": 100}})
    for outcome in (Outcome.REFUSED, Outcome.DROPPED, None):
        record = replace(ledger.open_actions["x"], outcome=outcome)
        assert changes_of((snapshot, replace(ledger, open_actions={"x": record}), document)).observed_overheads == ()


@pytest.mark.parametrize("version", ["6.10.0", "7.4.0"])
def test_oned_writes_the_instants_that_are_read(version: str) -> None:
    snapshot = RecordedPoolReader(RECORDINGS / version).read()
    kinds = {VmState.STOPPED: ActionKind.STOP, VmState.UNDEPLOYED: ActionKind.UNDEPLOY}
    records = []
    for vm in snapshot.vms.values():
        if vm.state in kinds:
            called_s = vm.history[-1].running_start_at_s
            called = ActionRecord(
                f"x{vm.id}",
                kinds[vm.state],
                vm.id,
                vm.id,
                None,
                None,
                None,
                "",
                "",
                called_s,
                1,
                Outcome.ACCEPTED,
                called_s,
            )
            records.append(replace(called, closed_at_s=snapshot.observed_at_s, succeeded=True))
    settled = SettledActions({}, tuple(records), (), {})
    told = observe_overheads(snapshot, Ledger(), settled, Watch(snapshot.observed_at_s))
    assert {one.kind for one in told} == {OverheadKind.SUSPEND, OverheadKind.SHUT_DOWN}
    # The recorded cloud's drivers do nothing, and it was asked to stop within seconds of the start.
    assert all(0 < one.took_s < 10 and one.memory_mib > 0 for one in told)
