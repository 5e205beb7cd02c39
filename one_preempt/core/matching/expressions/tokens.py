"""The words of requirement and rank expressions, and the error that names a place in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

MAX_LENGTH = 32_768
MAX_DEPTH = 200
MAX_DIGITS = 18
_SHOWN_CHARACTERS = 20


class ExpressionError(ValueError):
    """An expression that cannot be read. `position` is the column, from 1; the message says what to write."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(f"column {position}: {message}")
        self.position = position


class TokenKind(Enum):
    """What a token is."""

    SYMBOL = "symbol"
    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    END = "end"


class Token(Struct, frozen=True):
    """One token; `text` is without its quotes, `position` the column of its first character, from 1."""

    kind: TokenKind
    text: str
    position: int
    quoted: bool = False

    @property
    def shown(self) -> str:
        """How a message names it."""
        if self.kind is TokenKind.END:
            return "the end"
        cut = self.text if len(self.text) <= _SHOWN_CHARACTERS else self.text[:_SHOWN_CHARACTERS] + "..."
        cut = "".join(character if character.isprintable() else "?" for character in cut)
        return f'"{cut}"' if self.quoted else f"'{cut}'"


_TOKEN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<symbol>[@!&|=><()*+/])
      | "(?P<quoted>[^"]*)"
      | (?P<bare>[A-Za-z][0-9A-Za-z_]*)
      | (?P<float>-?[0-9]+\.[0-9]+)
      | (?P<integer>-?[0-9]+)
      | (?P<minus>-)""",
    re.VERBOSE | re.ASCII,
)


def tokenize(text: str) -> Iterator[Token]:
    """The tokens of `text`, with one END at the end. Raises ExpressionError."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(MAX_LENGTH, f"the expression has {len(text)} characters; {MAX_LENGTH} are allowed")
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(at + 1, _unreadable(text[at]))
        group, column, at = match.lastgroup, at + 1, match.end()
        if group == "quoted":
            yield Token(TokenKind.TEXT, match["quoted"], column, quoted=True)
        elif group == "bare":
            yield Token(TokenKind.TEXT, match["bare"], column)
        elif group == "float":
            yield Token(TokenKind.FLOAT, match["float"], column)
        elif group == "integer":
            yield Token(TokenKind.INTEGER, match["integer"], column)
        elif group != "blank":
            yield Token(TokenKind.SYMBOL, match.group(), column)
    yield Token(TokenKind.END, "", len(text) + 1)


def _unreadable(character: str) -> str:
    if character == '"':
        return "this quote is never closed"
    return f"{character!r} means nothing here; put names and values with such characters into double quotes"


def integer_of(token: Token) -> int:
    """The whole number of an INTEGER token; raises ExpressionError where it is beyond any real amount."""
    _check_size(token)
    return int(token.text)


def float_of(token: Token) -> float:
    """The number of a FLOAT token; raises ExpressionError where it is beyond any real amount."""
    _check_size(token)
    return float(token.text)


def _check_size(token: Token) -> None:
    if len(token.text.partition(".")[0]) > MAX_DIGITS:
        raise ExpressionError(token.position, f"this number has more than {MAX_DIGITS} digits")
