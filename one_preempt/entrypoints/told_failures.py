"""Which calls that came to nothing the log has told of: one that is tried again and again is told once an hour.

What has no answer is not the fault of one VM mostly, and the words tell of no VM: of that a few are told, whose VMs
they may be.
"""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.plan import Action
from one_preempt.ports import CallResult

TOLD_AGAIN_S = 3600
UNANSWERED_TOLD = 3


class _Told(Struct):
    """When it was told first in this hour, when it came last, how often it was told, and how often it was not."""

    told_at_s: int
    came_at_s: int
    lines: int = 1
    untold: int = 0


class ToldFailures:
    """By what was called for which VM, and what came of it; what has not come for an hour is forgotten."""

    def __init__(self) -> None:
        self._of_calls: dict[tuple[str, int], dict[str, _Told]] = {}
        self._unanswered: dict[str, _Told] = {}
        self._looked_at_s = 0

    def times_untold(self, action: Action, result: CallResult, now_s: int) -> int | None:
        """How often it came without being told since it was; None where it is not to be told now either."""
        if result.outcome is Outcome.UNKNOWN:
            told, most = self._unanswered, UNANSWERED_TOLD
        else:
            told, most = self._of_calls.setdefault((action.kind, action.vm_id), {}), 1
        known = told.get(result.error_text)
        if known is None:
            told[result.error_text] = _Told(now_s, now_s)
            return 0
        if not _is_fresh(known.told_at_s, now_s):
            told[result.error_text] = _Told(now_s, now_s, lines=most)
            return known.untold
        known.came_at_s = now_s
        if known.lines < most:
            known.lines += 1
            return 0
        known.untold += 1
        return None

    def succeeded(self, action: Action) -> None:
        """The call was taken: should it fail later, that is new."""
        self._of_calls.pop((action.kind, action.vm_id), None)

    def has_told(self, vm_id: int | None, text: str) -> bool:
        """Whether `text` says nothing but that a call for the VM came to nothing, as was told of that call."""
        kind, _, why = text.partition(f" of VM {vm_id}: ")
        return vm_id is not None and why in self._of_calls.get((kind, vm_id), {})

    def forget_old(self, now_s: int) -> None:
        """Forget what has not come for an hour: it is over, or its VM is."""
        if _is_fresh(self._looked_at_s, now_s):
            return
        self._looked_at_s = now_s
        lately = ((call, _lately(told, now_s)) for call, told in self._of_calls.items())
        self._of_calls = {call: told for call, told in lately if told}
        self._unanswered = _lately(self._unanswered, now_s)


def _lately(told: dict[str, _Told], now_s: int) -> dict[str, _Told]:
    return {text: one for text, one in told.items() if _is_fresh(one.came_at_s, now_s)}


def _is_fresh(at_s: int, now_s: int) -> bool:
    """Less than an hour ago; an instant to come was written before the clock was set back."""
    return 0 <= now_s - at_s < TOLD_AGAIN_S
