"""Which calls that came to nothing the log has told of: one that is tried again and again is told once an hour."""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.model.plan import Action
from one_preempt.ports import CallResult

TOLD_AGAIN_S = 3600


class _Told(Struct):
    """When it was told last, when it came last, and how often since it was told."""

    told_at_s: int
    came_at_s: int
    times: int = 0


class ToldFailures:
    """By what was called for which VM, and what came of it; what has not come for an hour is forgotten."""

    def __init__(self) -> None:
        self._of_calls: dict[tuple[str, int], dict[str, _Told]] = {}
        self._looked_at_s = 0

    def times_untold(self, action: Action, result: CallResult, now_s: int) -> int | None:
        """How often it came without being told since it was; None where it is not to be told now either."""
        of_call = self._of_calls.setdefault((action.kind, action.vm_id), {})
        known = of_call.get(result.error_text)
        if known is None or not _is_fresh(known.told_at_s, now_s):
            of_call[result.error_text] = _Told(now_s, now_s)
            return 0 if known is None else known.times
        known.came_at_s, known.times = now_s, known.times + 1
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
        if not self._of_calls or _is_fresh(self._looked_at_s, now_s):
            return
        self._looked_at_s = now_s
        self._of_calls = {
            call: of_call
            for call, of_call in self._of_calls.items()
            if any(_is_fresh(told.came_at_s, now_s) for told in of_call.values())
        }


def _is_fresh(at_s: int, now_s: int) -> bool:
    """Less than an hour ago; an instant to come was written before the clock was set back."""
    return 0 <= now_s - at_s < TOLD_AGAIN_S
