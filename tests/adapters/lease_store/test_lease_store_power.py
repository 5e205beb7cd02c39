"""What every lease store promises about the power of hosts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.ledger import Ledger, LedgerChanges
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Plan
from one_preempt.core.model.power_sequence import (
    HostPowerStep,
    PowerGoal,
    PowerOrder,
    PowerPhase,
    PowerSequence,
    PowerStepKind,
)
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding
from one_preempt.ports import CallResult

AnyStore = SqlLeaseStore | MemoryLeaseStore
NOW_S = 1_800_000_000
BEGUN = PowerSequence(4, "node-4", PowerPhase.DISABLING, NOW_S, "idle", "nobody is on it — “idle”")
OF_ANOTHER = PowerSequence(
    2, "node-2", PowerPhase.EMPTYING, NOW_S, "consolidated", "its VMs have room elsewhere",
    attempts=2, outcome=Outcome.UNKNOWN, outcome_at_s=NOW_S + 1, answer_text="timed out", emptied_vm_ids=(7, 9),
    began_at_s=NOW_S - 5, failures=3, not_before_s=NOW_S + 600, enabled=True,
)  # fmt: skip
STEP = HostPowerStep(4, "node-4", PowerStepKind.DISABLE, "idle", "nobody is on it")
HUNG = PowerStanding("node-4", PowerAttempt.BOOT, 3, NOW_S + 3600, None, "node-4 did not come up — “again”")
DENIED = PowerStanding("node-2", PowerAttempt.LOGIN, 1, NOW_S + 50, None, "who are you?")
TAKEN = PowerStanding("node-4", PowerAttempt.ON, ordered_at_s=NOW_S + 100)
ORDER = PowerOrder(2, PowerGoal.ON, NOW_S)


def begun(*sequences: PowerSequence, **more: object) -> Plan:
    return replace(Plan(made_at_s=NOW_S, policy="moml", power_sequences=sequences), **more)


def test_sequences_come_back_as_they_were_by_host(store: AnyStore) -> None:
    store.record_plan(begun(BEGUN, OF_ANOTHER))
    assert store.load(NOW_S).power_sequences == {2: OF_ANOTHER, 4: BEGUN}
    assert store.power_sequences() == (OF_ANOTHER, BEGUN)


def test_what_was_observed_replaces_the_sequence_of_its_host_alone(store: AnyStore) -> None:
    store.record_plan(begun(BEGUN, OF_ANOTHER))
    later = replace(BEGUN, phase=PowerPhase.EMPTYING, since_s=NOW_S + 9)
    store.apply(LedgerChanges(power_sequences=(later,)))
    assert store.load(NOW_S).power_sequences == {2: OF_ANOTHER, 4: later}


def test_a_step_counts_its_attempts_and_keeps_the_last_answer(store: AnyStore) -> None:
    store.record_plan(begun(BEGUN, OF_ANOTHER))
    store.begin_power_step(STEP)
    assert store.load(NOW_S).power_sequences[4] == replace(BEGUN, attempts=1)
    store.record_power_result(4, CallResult(Outcome.REFUSED, "ACTION", "no"), NOW_S + 2)
    answered = replace(BEGUN, attempts=1, outcome=Outcome.REFUSED, outcome_at_s=NOW_S + 2, answer_text="no")
    assert store.load(NOW_S).power_sequences[4] == answered
    store.begin_power_step(STEP)
    assert store.load(NOW_S).power_sequences == {2: OF_ANOTHER, 4: replace(BEGUN, attempts=2)}


def test_nothing_is_done_to_a_host_of_which_no_plan_has_written(store: AnyStore) -> None:
    with pytest.raises(LookupError, match="host 4"):
        store.begin_power_step(STEP)
    store.record_power_result(4, CallResult(Outcome.ACCEPTED), NOW_S)
    assert store.load(NOW_S).power_sequences == {}


def test_an_order_stands_until_a_plan_has_settled_it(store: AnyStore) -> None:
    store.order_power(PowerOrder(2, PowerGoal.OFF, NOW_S))
    store.order_power(ORDER)
    store.order_power(replace(ORDER, host_id=1))
    store.record_plan(begun(BEGUN))
    assert store.load(NOW_S).power_orders == {1: replace(ORDER, host_id=1), 2: ORDER}
    store.record_plan(begun(settled_power_orders=(1, 2)))
    assert store.load(NOW_S).power_orders == {}


def test_an_order_that_came_after_the_plan_had_looked_is_left_for_the_next(
    open_store: Callable[[], SqlLeaseStore],
) -> None:
    daemon, command_line = open_store(), open_store()
    command_line.order_power(ORDER)
    assert daemon.load(NOW_S).power_orders == {2: ORDER}
    contrary = PowerOrder(2, PowerGoal.OFF, NOW_S)
    command_line.order_power(contrary)
    daemon.record_plan(begun(settled_power_orders=(2,)))
    assert daemon.load(NOW_S).power_orders == {2: contrary}
    daemon.record_plan(begun(settled_power_orders=(2,)))
    assert daemon.load(NOW_S).power_orders == {}


def test_when_the_policy_was_asked_is_kept_and_a_plan_that_did_not_ask_leaves_it(store: AnyStore) -> None:
    assert store.load(NOW_S).power_asked_at_s is None
    store.record_plan(begun(power_asked_at_s=NOW_S))
    store.record_plan(begun(BEGUN))
    assert store.load(NOW_S).power_asked_at_s == NOW_S
    assert not store.is_paused()


def test_what_power_control_remembers_comes_back_by_host_and_attempt(store: AnyStore) -> None:
    store.apply(LedgerChanges(power_standings=(HUNG, DENIED, TAKEN)))
    assert store.power_standings() == (DENIED, HUNG, TAKEN)
    again = replace(HUNG, failures=4, why="so")
    store.apply(LedgerChanges(power_standings=(again, PowerStanding(*DENIED.key), PowerStanding("x", DENIED.attempt))))
    assert store.power_standings() == (again, TAKEN)


def test_what_a_host_did_long_ago_is_forgotten(store: AnyStore) -> None:
    store.apply(LedgerChanges(power_standings=(HUNG, DENIED, TAKEN)))
    store.prune(NOW_S + 60)
    assert store.power_standings() == (HUNG, TAKEN)
    store.prune(NOW_S + 101)
    assert store.power_standings() == (HUNG,)


def test_a_restarted_daemon_finds_what_power_control_remembered(url: str, database: Path) -> None:
    store = SqlLeaseStore(url)
    store.apply(LedgerChanges(power_standings=(HUNG,)))
    store.close()
    store = SqlLeaseStore(url)
    assert store.power_standings() == (HUNG,)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE power_standings SET attempt = 'dance'")
    with pytest.raises(Exception, match="power_standings, host node-4: attempt"):
        store.power_standings()
    store.close()


def test_power_outlives_pruning(store: AnyStore) -> None:
    store.record_plan(begun(BEGUN))
    store.prune(NOW_S + 10**6)
    assert store.power_sequences() == (BEGUN,)


def test_hosts_that_were_deleted_are_forgotten_after_a_while(store: AnyStore) -> None:
    gone = replace(BEGUN, host_id=9, phase=PowerPhase.AWAKE, since_s=NOW_S, reason_code="deleted-unpowered")
    store.record_plan(begun(BEGUN))
    store.apply(LedgerChanges(power_sequences=(gone,)))
    store.prune(NOW_S)
    assert store.power_sequences() == (BEGUN, gone)
    store.prune(NOW_S + 1)
    assert store.power_sequences() == (BEGUN,)


def test_a_store_in_memory_may_begin_where_a_ledger_stands() -> None:
    ledger = Ledger(power_sequences={4: BEGUN}, power_orders={2: ORDER}, power_asked_at_s=NOW_S)
    loaded = MemoryLeaseStore(ledger).load(NOW_S)
    assert (loaded.power_sequences, loaded.power_orders) == ({4: BEGUN}, {2: ORDER})
    assert loaded.power_asked_at_s == NOW_S


@pytest.mark.parametrize(
    ("column", "value"), [("phase", "'dozing'"), ("outcome", "'maybe'"), ("emptied_vm_ids", "'x'")]
)
def test_a_row_that_nobody_wrote_is_named(url: str, database: Path, column: str, value: str) -> None:
    store = SqlLeaseStore(url)
    store.record_plan(begun(BEGUN))
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(f"UPDATE host_power SET {column} = {value}")
    with pytest.raises(Exception, match=f"host_power, host 4: {column}"):
        store.load(NOW_S)
    store.close()
