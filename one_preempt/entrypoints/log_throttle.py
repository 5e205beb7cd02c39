"""Which failed calls are logged: one that fails again and again is logged once an hour, with how often it was not.

Calls that get no answer seldom fail because of their VMs: of those that fail in the same words a few are logged,
whatever VMs they are about.
"""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action
from one_preempt.ports import CallResult

LOGGED_AGAIN_S = 3600
UNANSWERED_LOGGED = 3


class _Logged(Struct):
    """When it was first logged in this hour, when it failed last, how often it was logged, and how often it was not."""

    logged_at_s: int
    failed_at_s: int
    lines: int = 1
    suppressed: int = 0


class FailureThrottle:
    """By the call, the VM and the words of the failure; what has not failed so for an hour is forgotten."""

    def __init__(self) -> None:
        self._of_calls: dict[tuple[str, int], dict[str, _Logged]] = {}
        self._unanswered: dict[str, _Logged] = {}
        self._looked_at_s = 0

    def times_suppressed(self, action: Action, result: CallResult, now_s: int) -> int | None:
        """How often it failed so without being logged since it last was; None where it is not to be logged now."""
        if result.outcome is Outcome.UNKNOWN:
            logged, most = self._unanswered, UNANSWERED_LOGGED
        else:
            logged, most = self._of_calls.setdefault((action.kind, action.vm_id), {}), 1
        known = logged.get(result.error_text)
        if known is None:
            logged[result.error_text] = _Logged(now_s, now_s)
            return 0
        if not _is_fresh(known.logged_at_s, now_s):
            logged[result.error_text] = _Logged(now_s, now_s, lines=most)
            return known.suppressed
        known.failed_at_s = now_s
        if known.lines < most:
            known.lines += 1
            return 0
        known.suppressed += 1
        return None

    def succeeded(self, action: Action) -> None:
        """The call was accepted: should it fail later, that is new."""
        self._of_calls.pop((action.kind, action.vm_id), None)

    def has_logged(self, vm_id: int | None, text: str) -> bool:
        """Whether `text` says no more than that a call for the VM failed in words that were logged."""
        kind, _, why = text.partition(f" of VM {vm_id}: ")
        return vm_id is not None and why in self._of_calls.get((kind, vm_id), {})

    def forget_old(self, now_s: int) -> None:
        """Forget what has not failed for an hour: it is over, or its VM is."""
        if _is_fresh(self._looked_at_s, now_s):
            return
        self._looked_at_s = now_s
        lately = ((call, _lately(logged, now_s)) for call, logged in self._of_calls.items())
        self._of_calls = {call: logged for call, logged in lately if logged}
        self._unanswered = _lately(self._unanswered, now_s)


def _lately(logged: dict[str, _Logged], now_s: int) -> dict[str, _Logged]:
    return {text: one for text, one in logged.items() if _is_fresh(one.failed_at_s, now_s)}


def _is_fresh(at_s: int, now_s: int) -> bool:
    """Less than an hour ago; an instant to come was written before the clock was set back."""
    return 0 <= now_s - at_s < LOGGED_AGAIN_S
