"""Splitting a lease over many windows, against all plans, minute by minute."""

from __future__ import annotations

from random import Random

from one_preempt.core.availability.piece_search import PieceSearch
from one_preempt.core.availability.stay_windows import StayWindow
from tests.core.availability.naive import CASES

END = 70


class Case:
    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.minimum_s, self.resume_s, self.suspend_s = (
            random.choice(times) for times in ((1, 2, 5), (0, 1, 2), (0, 1, 3))
        )
        self.windows: list[StayWindow] = []
        start_s = end_s = 0
        widest = random.choice((6, 14, 30))
        while end_s < END:
            start_s += random.randint(1, 6)
            end_s = max(end_s + 1, start_s + random.randint(1, widest))
            self.windows.append(StayWindow(start_s, end_s))
        longest_s = max(end_s - start_s for start_s, end_s in self.windows)
        self.remaining_s = random.randint(max(2 * self.minimum_s, longest_s + 1), 60)

    def plans(self, seed: int) -> None:
        """As `first_to_end` should say."""
        search = PieceSearch(self.windows, self.remaining_s, self.minimum_s, self.resume_s, self.suspend_s)
        plan = search.first_to_end()
        end_s, pieces = self.first_end()
        assert (plan and (plan[-1].end_s, len(plan))) == (end_s and (end_s, pieces)), seed
        free_from_s = 0
        for position, piece in enumerate(plan or ()):
            overhead_s = (self.resume_s if position else 0) + (self.suspend_s if plan and piece is not plan[-1] else 0)
            assert piece.start_s >= free_from_s
            assert piece.end_s - piece.start_s == piece.useful_s + overhead_s
            assert piece.useful_s >= self.minimum_s
            assert any(window.start_s <= piece.start_s and piece.end_s <= window.end_s for window in self.windows)
            free_from_s = piece.end_s
        assert sum(piece.useful_s for piece in plan or ()) == (self.remaining_s if plan else 0)

    def first_end(self) -> tuple[int | None, int]:
        """The first end of all plans, and the fewest pieces of those that end then."""
        last_s = self.windows[-1].end_s
        # By minute: what can have been served by suspended pieces, and how few these were.
        fewest: list[dict[int, int]] = [{} for _ in range(last_s + 1)]
        found: list[tuple[int, int]] = []
        for start_s in range(last_s):
            before = {0: 0, **(fewest[start_s - 1] if start_s else {})}
            for served_s, pieces in before.items():
                fewest[start_s][served_s] = min(pieces, fewest[start_s].get(served_s, pieces))
            limit_s = max((window.end_s for window in self.windows if window.start_s <= start_s), default=start_s)
            for served_s, pieces in fewest[start_s].items():
                runs_from_s = start_s + (self.resume_s if served_s else 0)
                left_s = self.remaining_s - served_s
                if served_s and left_s >= self.minimum_s and runs_from_s + left_s <= limit_s:
                    found.append((runs_from_s + left_s, pieces + 1))
                for useful_s in range(self.minimum_s, min(left_s, limit_s - self.suspend_s - runs_from_s + 1)):
                    then = fewest[runs_from_s + useful_s + self.suspend_s]
                    then[served_s + useful_s] = min(pieces + 1, then.get(served_s + useful_s, pieces + 1))
        return min(found, default=(None, 0))


def test_no_plan_over_many_windows_ends_earlier_or_has_fewer_pieces() -> None:
    for seed in range(CASES // 4):
        Case(seed).plans(seed)
