"""What both stores agree on: how an intent is recorded, and what counts as recent."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from one_preempt.core.model.ledger import ActionRecord
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import METHOD_ACTIONS, Action, ActionKind
from one_preempt.core.model.power_sequence import PowerSequence
from one_preempt.ports import CallResult

# A failed action is remembered this long, so that it is not tried again at once.
RETRY_WINDOW_S = 3600
# Victims sent out are counted over this long (the ceiling of victims per hour).
VICTIM_WINDOW_S = 3600
# Of one kind of operation on one datastore, the latest so many are learned from.
OVERHEADS_KEPT = 64
_ACCEPTED = Outcome.ACCEPTED
VICTIM_KINDS = frozenset(METHOD_ACTIONS.values())


def intended(action: Action, now_s: int) -> ActionRecord:
    """The record of an action that a plan wants and nobody has issued yet."""
    reason = action.reason
    return ActionRecord(
        action.id, action.kind, action.vm_id, action.lease_id, action.preemption_id, action.host_id,
        action.datastore_id, reason.code, reason.text, intended_at_s=now_s,
    )  # fmt: skip


def intents(
    actions: Iterable[Action], known: Callable[[str], ActionRecord | None], now_s: int
) -> dict[str, ActionRecord]:
    """The records to write for the actions of a plan, by their ids; `known` tells the one that there is.

    An open action keeps its record. A closed one is opened again: the same step became necessary once more.
    """
    found: dict[str, ActionRecord] = {}
    for action in actions:
        before = known(action.id)
        if before is None:
            found[action.id] = intended(action, now_s)
        elif before.closed_at_s is not None:
            found[action.id] = _intended_again(before, before.closed_at_s, action, now_s)
    return found


def _intended_again(known: ActionRecord, closed_at_s: int, action: Action, now_s: int) -> ActionRecord:
    """Its attempts are kept while they are remembered as failures, and begin anew after that."""
    remembered = now_s - RETRY_WINDOW_S <= closed_at_s <= now_s and not known.succeeded
    return replace(intended(action, now_s), attempts=known.attempts if remembered else 0)


def is_told_later(known: ActionRecord) -> bool:
    """Whether a closed record is kept when it is opened again, so that each time of the step can be told.

    Not where nothing was asked of oned; nor of messages, which change with every expectation of the queue.
    """
    return known.attempts > 0 and known.kind is not ActionKind.MESSAGE


def attempted(record: ActionRecord) -> ActionRecord:
    """The record while a call is under way: one attempt more, nothing answered."""
    return replace(record, attempts=record.attempts + 1, outcome=None, outcome_at_s=None, error_code="", error_text="")


def answered(record: ActionRecord, result: CallResult, now_s: int) -> ActionRecord:
    """The record once a call was answered, or known to have none."""
    return replace(
        record,
        attempts=record.attempts,
        outcome=result.outcome,
        outcome_at_s=now_s,
        error_code=result.error_code,
        error_text=result.error_text,
    )


def accepted(record: ActionRecord, now_s: int) -> ActionRecord:
    """The record after one more attempt that was accepted."""
    return replace(
        record, attempts=record.attempts + 1, outcome=_ACCEPTED, outcome_at_s=now_s, error_code="", error_text=""
    )


def closed_like(known: ActionRecord, closed: ActionRecord) -> ActionRecord:
    """The known action with what became of it: the intent and its attempts stay."""
    return replace(
        known,
        outcome=closed.outcome,
        outcome_at_s=closed.outcome_at_s,
        error_code=closed.error_code,
        error_text=closed.error_text,
        closed_at_s=closed.closed_at_s,
        succeeded=closed.succeeded,
    )


def power_attempted(sequence: PowerSequence) -> PowerSequence:
    """The sequence while the call of its phase is under way."""
    return replace(sequence, attempts=sequence.attempts + 1, outcome=None, outcome_at_s=None, answer_text="")


def power_answered(sequence: PowerSequence, result: CallResult, now_s: int) -> PowerSequence:
    """The sequence once that call was answered."""
    not_before_s = sequence.not_before_s if result.retry_at_s is None else result.retry_at_s
    return replace(
        sequence, outcome=result.outcome, outcome_at_s=now_s, answer_text=result.error_text, not_before_s=not_before_s
    )


def unknown_host(host_id: int) -> LookupError:
    """Only what a plan has written down may be done to a host."""
    return LookupError(f"no power sequence of host {host_id} was ever recorded")


def unknown_action(action_id: str) -> LookupError:
    """Only an action that a plan has recorded may be issued: the intent must be on disk before the effect."""
    return LookupError(f"action {action_id} was never recorded by a plan")


def newest_first(latest: Iterable[ActionRecord], past: Iterable[ActionRecord]) -> tuple[ActionRecord, ...]:
    """The log of actions: the latest record of each, and those of the times before it, given newest first."""
    return tuple(sorted((*latest, *past), key=lambda record: (record.intended_at_s, record.id), reverse=True))
