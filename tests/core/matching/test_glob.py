"""Shell patterns against a plain recursive matcher, the table of fnmatch(3), and patterns meant to hang."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.matching.expressions.glob import MAX_PATTERN_LENGTH, compile_glob


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("", "", True),
        ("*", "", True),
        ("a*c", "abc", True),
        ("a*c", "abcd", False),
        ("a*a", "a", False),
        ("*.example.org", "n1.example.org", True),
        ("n?de", "node", True),
        ("n?de", "nde", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[]]", "]", True),
        ("[a", "[a", True),
        ("[c-a]", "b", False),
        ("[!c-a]", "b", True),
        ("[[:digit:]][[:upper:]]", "4Q", True),
        ("[a-]", "-", True),
        (r"\*", "*", True),
        (r"\*", "a", False),
        (r"[\]]", "]", True),
        ("a.b", "axb", False),
        ("[.]", ".", True),
        ("[&&~~||--]", "&", True),
        ("a*b*c", "a-c-b-c", True),
        ("new\n*", "new\nline", True),
    ],
)
def test_a_pattern_matches_as_fnmatch_does(pattern: str, text: str, matches: bool) -> None:
    assert compile_glob(pattern).matches(text) is matches


def test_a_pattern_meant_to_backtrack_for_ever_ends() -> None:
    assert not compile_glob("*a" * 400 + "*b").matches("a" * 20_000)


def test_a_pattern_beyond_the_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="1024 characters"):
        compile_glob("x" * (MAX_PATTERN_LENGTH + 1))


def naive(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(naive(pattern[1:], text[skipped:]) for skipped in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and naive(pattern[1:], text[1:])


@given(pattern=st.text(alphabet="ab*?", max_size=7), text=st.text(alphabet="ab", max_size=8))
def test_stars_agree_with_a_recursive_matcher(pattern: str, text: str) -> None:
    assert compile_glob(pattern).matches(text) is naive(pattern, text)


@given(pattern=st.text(alphabet="ab[]!^-\\*?:&~|.", max_size=12), text=st.text(alphabet="ab[]-", max_size=6))
def test_every_pattern_compiles(pattern: str, text: str) -> None:
    assert compile_glob(pattern).matches(text) in (True, False)
