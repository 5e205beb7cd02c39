"""A writer killed between any two transactions, or in the middle of one, has lost nothing it acknowledged."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from one_preempt.adapters.lease_store.memory_lease_store import MemoryLeaseStore
from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.lease import LeaseTerms, LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, LedgerChanges, Transition
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action, ActionKind, Plan, Preemption, PreemptionEnd, Reason, Victim
from one_preempt.core.model.reservation import Booking, Reservation, Verdict, VerdictGiven
from one_preempt.ports import CallResult, LeaseStore

NOW_S = 1_800_000_000
VICTIM = LeaseRecord(7, LeaseTerms(LeaseType.BE_SUSPENDABLE), 5, 100, (7,), True, False, NOW_S, NOW_S)
STOP = Action("p1/stop/7", ActionKind.STOP, 7, 7, Reason("VICTIM", "makes room"), preemption_id="p1")
DEPLOY = Action("p1/deploy/20", ActionKind.DEPLOY, 20, 20, Reason("PLACED", "fits"), host_id=3, after=(STOP.id,))
PREEMPTION = Preemption("p1", 20, (Victim(7, 7, 3, PreemptionMethod.STOP),), (), "moml", 1, True, 1, NOW_S)
STOPPED = Transition(7, 7, NOW_S + 3, "RUNNING", "STOPPED", None, 1024)
LATER = Reservation(7, NOW_S + 60, NOW_S + 120, (3,), firm=True)

Step = Callable[[LeaseStore], None]


def done(record: ActionRecord) -> ActionRecord:
    return replace(record, closed_at_s=NOW_S + 3, succeeded=True)


# One preemption as the scheduling cycle writes it, a transaction a step.
STORY: tuple[Step, ...] = (
    lambda store: store.apply(LedgerChanges(admitted=(VICTIM,))),
    lambda store: store.record_plan(Plan(NOW_S, "moml", (STOP, DEPLOY), (PREEMPTION,))),
    lambda store: store.begin_attempt(STOP, NOW_S + 1),
    lambda store: store.record_result(STOP.id, CallResult(Outcome.ACCEPTED), NOW_S + 2),
    lambda store: store.apply(
        LedgerChanges(
            updated=(replace(VICTIM, preemptions=1, preempted_by=20),),
            closed_actions=(done(store.load(NOW_S).open_actions[STOP.id]),),
            transitions=(STOPPED,),
        )
    ),
    lambda store: store.begin_attempt(DEPLOY, NOW_S + 4),
    lambda store: store.record_result(DEPLOY.id, CallResult(Outcome.UNKNOWN), NOW_S + 5),
    lambda store: store.record_plan(
        Plan(NOW_S + 6, "moml", ended_preemptions=(PreemptionEnd("p1", True, Reason("FULFILLED", "runs")),))
    ),
    lambda store: store.record_plan(
        Plan(
            NOW_S + 6,
            "moml",
            bookings=(Booking(7, (LATER, replace(LATER, start_at_s=NOW_S + 900))),),
            verdicts=(VerdictGiven(7, Verdict.ACCEPTED, "comes back in a minute"),),
        )
    ),
    lambda store: store.record_plan(Plan(NOW_S + 7, "moml", bookings=(Booking(7, (LATER,)),))),
    lambda store: store.set_paused(True, NOW_S + 7),
    lambda store: store.apply(
        LedgerChanges(
            updated=(replace(VICTIM, ended_at_s=NOW_S + 7),),
            observed_overheads=(ObservedOverhead(OverheadKind.SUSPEND, 7, 100, 1024, 3, NOW_S + 7),),
        )
    ),
)


def fork_writer(write: Callable[[int], None]) -> tuple[int, int]:
    """Run `write(pipe)` in a process of its own; its id and the reading end of the pipe."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            write(writing)
        finally:
            os._exit(1)
    os.close(writing)
    return process, reading


@pytest.mark.parametrize("steps", range(len(STORY) + 1))
def test_a_writer_killed_after_any_step_leaves_exactly_the_steps_it_took(url: str, steps: int) -> None:
    def write(_pipe: int) -> None:
        store = SqlLeaseStore(url)
        for step in STORY[:steps]:
            step(store)
        os.kill(os.getpid(), signal.SIGKILL)

    process, pipe = fork_writer(write)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    os.close(pipe)

    expected = MemoryLeaseStore()
    for step in STORY[:steps]:
        step(expected)
    survivor = SqlLeaseStore(url)
    assert survivor.load(NOW_S + 7) == expected.load(NOW_S + 7)
    assert survivor.transitions() == expected.transitions()
    survivor.close()


@pytest.mark.parametrize("acknowledged", [1, 7, 40])
def test_a_writer_killed_while_it_writes_loses_nothing_it_acknowledged(
    url: str, database: Path, acknowledged: int
) -> None:
    def write(pipe: int) -> None:
        store = SqlLeaseStore(url)
        for number in range(100_000):
            store.apply(LedgerChanges(transitions=(replace(STOPPED, vm_id=number),)))
            os.write(pipe, b".")

    process, pipe = fork_writer(write)
    for _ in range(acknowledged):
        assert os.read(pipe, 1) == b"."
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    while answer := os.read(pipe, 4096):
        acknowledged += len(answer)
    os.close(pipe)

    survivor = SqlLeaseStore(url)
    kept = [transition.vm_id for transition in survivor.transitions(limit=1_000_000)]
    survivor.close()
    assert kept == list(range(len(kept)))[::-1]
    assert len(kept) - acknowledged in (0, 1)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_lock_of_a_killed_writer_is_free_at_once(url: str) -> None:
    def write(pipe: int) -> None:
        SqlLeaseStore(url).acquire_writer()
        os.write(pipe, b".")
        signal.pause()

    process, pipe = fork_writer(write)
    assert os.read(pipe, 1) == b"."
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(pipe)
    successor = SqlLeaseStore(url)
    successor.acquire_writer()
    successor.close()
