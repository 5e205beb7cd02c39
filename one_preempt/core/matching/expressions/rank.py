"""Rank expressions: SCHED_RANK, SCHED_DS_RANK and the default policies.

Numbers, attributes, + - * / and parentheses; a missing attribute is 0. The arithmetic is the matchmaker's:
single precision, the result cut to a 32-bit whole number, and a unary minus takes the whole product behind
it. What does not fit a 32-bit number (a division by zero, too) becomes the lowest one, as on its machines.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from one_preempt.core.matching.expressions.attributes import AttributeTable, FloatArray
from one_preempt.core.matching.expressions.tokens import (
    MAX_DEPTH,
    ExpressionError,
    Token,
    TokenKind,
    float_of,
    integer_of,
    tokenize,
)

LOWEST_RANK = -(2**31)
MAX_STEPS = 4096
_NEGATE = "negate"
_PRECEDENCE = {"+": 1, "-": 1, _NEGATE: 1, "*": 2, "/": 2}


class Rank(Struct, frozen=True):
    """A rank that was read; `program` is its postfix form: numbers, names and operators."""

    program: tuple[tuple[TokenKind, str | float], ...]

    def scores(self, table: AttributeTable) -> npt.NDArray[np.int64]:
        """The rank of each row; higher is better. All equal for an empty expression."""
        stack: list[FloatArray] = []
        # The same name may stand there thousands of times.
        names = {str(name) for kind, name in self.program if kind is TokenKind.TEXT}
        numbers = {name: table.numbers(name) for name in names}
        with np.errstate(all="ignore"):
            for kind, value in self.program:
                if kind is TokenKind.TEXT:
                    stack.append(numbers[str(value)])
                elif kind is not TokenKind.SYMBOL:
                    stack.append(np.full(len(table), value, dtype=np.float32))
                elif value == _NEGATE:
                    stack.append(-stack.pop())
                else:
                    right, left = stack.pop(), stack.pop()
                    stack.append(_apply(str(value), left, right))
        return _whole(stack.pop()) if stack else np.zeros(len(table), dtype=np.int64)


def parse_rank(text: str) -> Rank:
    """Read a rank; raises ExpressionError with the column and what was expected there."""
    return _Parser(text).parse()


def _apply(operator: str, left: FloatArray, right: FloatArray) -> FloatArray:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    return left * right if operator == "*" else left / right


def _whole(values: FloatArray) -> npt.NDArray[np.int64]:
    """Cut to 32-bit numbers, then to what a single-precision priority can hold apart."""
    fits = np.isfinite(values) & (values > -(2.0**31)) & (values < 2.0**31)
    whole = np.where(fits, np.trunc(np.where(fits, values, 0)), LOWEST_RANK)
    return whole.astype(np.float32).astype(np.int64)


class _Parser:
    """Operator precedence with an explicit stack of operators and opened parentheses."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._program: list[tuple[TokenKind, str | float]] = []
        self._waiting: list[tuple[str, int]] = []
        self._depth = 0

    def parse(self) -> Rank:
        operand_expected, first = True, True
        for token in tokenize(self._text):
            if token.kind is TokenKind.END and first:
                break
            first = False
            read = self._read_operand if operand_expected else self._read_operator
            operand_expected = read(token)
        return Rank(tuple(self._program))

    def _read_operand(self, token: Token) -> bool:
        """Take an operand, or what may stand before one; True while one is still expected."""
        if len(self._program) > MAX_STEPS:
            raise ExpressionError(token.position, f"more than {MAX_STEPS} terms and operators")
        if token.kind is TokenKind.TEXT:
            self._program.append((token.kind, token.text))
            return False
        if token.kind is TokenKind.INTEGER or token.kind is TokenKind.FLOAT:
            number = integer_of(token) if token.kind is TokenKind.INTEGER else float_of(token)
            self._program.append((token.kind, number))
            return False
        if token.kind is TokenKind.SYMBOL and token.text in "(-":
            self._open("(" if token.text == "(" else _NEGATE, token.position)
            return True
        raise ExpressionError(token.position, f"expected an attribute, a number, '-' or '(', found {token.shown}")

    def _open(self, symbol: str, position: int) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(position, f"more than {MAX_DEPTH} parentheses or signs inside each other")
        self._waiting.append((symbol, position))

    def _read_operator(self, token: Token) -> bool:
        """Take an operator, a closing parenthesis or the end; True where an operand must follow."""
        if token.kind is TokenKind.END:
            self._apply_waiting(0)
            if self._waiting:
                raise ExpressionError(self._waiting[-1][1], "this parenthesis is never closed")
            return False
        if token.kind is TokenKind.SYMBOL and token.text == ")":
            self._apply_waiting(0)
            if not self._waiting:
                raise ExpressionError(token.position, "this parenthesis was never opened")
            self._waiting.pop()
            self._depth -= 1
            return False
        if token.kind is TokenKind.SYMBOL and token.text in _PRECEDENCE:
            self._apply_waiting(_PRECEDENCE[token.text])
            self._waiting.append((token.text, token.position))
            return True
        hint = "; write a blank after a minus" if token.text.startswith("-") else ""
        raise ExpressionError(token.position, f"expected + - * / or the end, found {token.shown}{hint}")

    def _apply_waiting(self, precedence: int) -> None:
        """Move the waiting operators that bind at least as tightly into the program."""
        while self._waiting and self._waiting[-1][0] != "(" and _PRECEDENCE[self._waiting[-1][0]] >= precedence:
            symbol, _ = self._waiting.pop()
            self._depth -= symbol == _NEGATE
            self._program.append((TokenKind.SYMBOL, symbol))


def best_first(scores: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Rows by descending score; of equal ones the last row, the highest id, comes first, as in the matchmaker."""
    return np.lexsort((np.arange(len(scores)), scores))[::-1]
