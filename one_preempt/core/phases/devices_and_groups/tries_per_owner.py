"""How often one decision looks for room beside what others were promised, so that no owner uses it up for all.

Each look costs what its owner chooses: who asks for what he will not get is looked at anew in every cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from one_preempt.core.matching.reasons import Unplaced

# So many placements of an owner are held against what was promised, until promises of so much weight were put on their
# hosts for them; who is behind them is kept off all that was promised.
PLACEMENTS_AN_OWNER = 64
PUT_AN_OWNER = 5_000
# Once so much was put for all of them, each owner who had no look yet has one.
PUT_FOR_ALL = 20_000


class TriesPerOwner:
    """What was looked at for each owner; `refused` is what was said to whoever found nothing, by all that he asked."""

    def __init__(self) -> None:
        self.refused: dict[Hashable, Unplaced] = {}
        self._placements: Counter[int] = Counter()
        self._put: Counter[int] = Counter()

    def at_once(self, uid: int) -> int:
        """So many hosts may be tried in vain for one request: half of what its owner has left, so others have some."""
        return max(1, (PLACEMENTS_AN_OWNER - self._placements[uid]) // 2)

    def are_over(self, uid: int) -> bool:
        """Is nothing more looked at for this owner in this decision? Then he is kept off all that was promised."""
        placements = self._placements[uid]
        if placements >= PLACEMENTS_AN_OWNER or self._put[uid] > PUT_AN_OWNER:
            return True
        return placements > 0 and self._put.total() > PUT_FOR_ALL

    def count(self, uid: int, put: int) -> None:
        """One more placement of this owner was held against promises, for which so much of these was put on hosts."""
        self._placements[uid] += 1
        self._put[uid] += put
