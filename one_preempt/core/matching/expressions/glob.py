"""Shell patterns as fnmatch(3) reads them, without its worst cases.

Between two stars every pattern has a fixed width, so that it is matched by taking the leftmost place of each
piece in turn: no backtracking, whatever a user writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

MAX_PATTERN_LENGTH = 1024
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_NAMED_CLASS = re.compile(r"\[:([a-z]+):\]")


class Glob(Struct, frozen=True):
    """A compiled shell pattern.

    `literal` is the text it stands for when it has no wildcard, `affixes` what stands before and behind its only
    star when that is its only wildcard; each else None. `pieces`: what stands between the stars, with its width;
    empty where one of the two says it all.
    """

    pattern: str
    literal: str | None
    affixes: tuple[str, str] | None
    pieces: tuple[tuple[re.Pattern[str], int], ...]

    def matches(self, text: str) -> bool:
        """Does the whole of `text` match?"""
        if self.literal is not None:
            return text == self.literal
        if self.affixes is not None:
            return self.matches_of((text,))[0]
        first, last = self.pieces[0], self.pieces[-1]
        if len(self.pieces) == 1:
            return first[0].fullmatch(text) is not None
        end = len(text) - last[1]
        if first[1] > end or first[0].match(text) is None or last[0].match(text, end) is None:
            return False
        at = first[1]
        for piece, _ in self.pieces[1:-1]:
            found = piece.search(text, at, end)
            if found is None:
                return False
            at = found.end()
        return True

    def matches_of(self, texts: Sequence[str]) -> list[bool]:
        """`matches` for each of many texts; the usual patterns without a call for each."""
        if self.literal is not None:
            return [text == self.literal for text in texts]
        if self.affixes is not None:
            before, behind = self.affixes
            least = len(before) + len(behind)
            return [text.startswith(before) and text.endswith(behind) and len(text) >= least for text in texts]
        return [self.matches(text) for text in texts]


def compile_glob(pattern: str) -> Glob:
    """Compile `pattern`; raises ValueError where it is longer than MAX_PATTERN_LENGTH."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"a pattern may have {MAX_PATTERN_LENGTH} characters, this one has {len(pattern)}")
    pieces: list[tuple[str, int]] = []
    plain_pieces: list[str | None] = []
    piece: list[str] = []
    plain: str | None = ""
    at = 0
    while at < len(pattern):
        if pattern[at] == "*":
            pieces.append(("".join(piece), len(piece)))
            plain_pieces.append(plain)
            piece, plain = [], ""
            at += 1
            continue
        expression, character, at = _one_character(pattern, at)
        piece.append(expression)
        plain = None if plain is None or character is None else plain + character
    pieces.append(("".join(piece), len(piece)))
    plain_pieces.append(plain)
    match plain_pieces:
        case [str(literal)]:
            return Glob(pattern, literal, None, ())
        case [str(before), str(behind)]:
            return Glob(pattern, None, (before, behind), ())
    return Glob(pattern, None, None, tuple((re.compile(text, re.DOTALL), width) for text, width in pieces))


def _one_character(pattern: str, at: int) -> tuple[str, str | None, int]:
    """The expression for the element at `at`, the character it stands for if it is only one, where to go on."""
    character = pattern[at]
    if character == "?":
        return ".", None, at + 1
    if character == "\\" and at + 1 < len(pattern):
        return re.escape(pattern[at + 1]), pattern[at + 1], at + 2
    if character == "[":
        bracket = _bracket(pattern, at + 1)
        if bracket is not None:
            return bracket[0], None, bracket[1]
    return re.escape(character), character, at + 1


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """The expression of a bracket whose inside starts at `at`; None where it is never closed."""
    negated = at < len(pattern) and pattern[at] in "!^"
    at += negated
    inside: list[str] = []
    first = True
    while at < len(pattern):
        if pattern[at] == "]" and not first:
            return _character_set("".join(inside), negated), at + 1
        first = False
        named = _NAMED_CLASS.match(pattern, at)
        if named is not None and named[1] in _CLASSES:
            inside.append(_CLASSES[named[1]])
            at = named.end()
            continue
        low, at = _bracket_character(pattern, at)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _bracket_character(pattern, at + 1)
            if low <= high:
                inside.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            inside.append(re.escape(low))
    return None


def _bracket_character(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\" and at + 1 < len(pattern):
        return pattern[at + 1], at + 2
    return pattern[at], at + 1


def _character_set(inside: str, negated: bool) -> str:
    if not inside:
        return "." if negated else "(?!.)."
    return f"[{'^' if negated else ''}{inside}]"
