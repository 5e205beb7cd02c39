"""The texts of a column, compared with a pattern once each, however many hosts have them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from one_preempt.core.matching.expressions.glob import Glob

# What is counted are trials: one takes about as long as a pattern on one short text.
COMPARISON_TRIALS = 16
_CHARACTERS_A_TRIAL = 64
_AFFIXES_A_TRIAL = 4


class ColumnTexts:
    """Which of `entries` entries have which text, from (entry, text) pairs."""

    def __init__(self, entries: int, pairs: Iterable[tuple[int, str]]) -> None:
        code_of: dict[str, int] = {}
        coded = [(code_of.setdefault(text, len(code_of)), entry) for entry, text in pairs]
        codes = np.array([code for code, _ in coded], dtype=np.int64)
        by_code = np.argsort(codes, kind="stable")
        self._code_of = code_of
        self._distinct = list(code_of)
        self._codes = codes[by_code]
        self._entries = np.array([entry for _, entry in coded], dtype=np.int64)[by_code]
        self._starts = np.searchsorted(self._codes, np.arange(len(code_of) + 1))
        self._count = entries
        self._characters = sum(map(len, self._distinct))

    def matching(self, glob: Glob) -> npt.NDArray[np.bool_]:
        """The entries of which any text matches."""
        held = np.zeros(self._count, dtype=np.bool_)
        if glob.literal is None:
            matched = np.array(glob.matches_of(self._distinct), dtype=np.bool_)
            held[self._entries[matched[self._codes]]] = True
        elif (code := self._code_of.get(glob.literal)) is not None:
            held[self._entries[self._starts[code] : self._starts[code + 1]]] = True
        return held

    def trials(self, glob: Glob) -> int:
        """How many trials `matching` takes at most, in the worst of texts: a piece is tried at every character."""
        if glob.literal is not None:
            return 0
        if glob.affixes is not None:
            return len(self._distinct) // _AFFIXES_A_TRIAL
        return len(self._distinct) + self._characters * len(glob.pattern) // _CHARACTERS_A_TRIAL
