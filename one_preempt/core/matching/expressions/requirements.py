"""Requirement expressions: SCHED_REQUIREMENTS and what oned adds to them.

`ATTRIBUTE op VALUE` with = != > < @>, combined by & and | of equal precedence from left to right, ! for what
follows it directly, and parentheses. = and != on texts are shell patterns, > and < are for numbers, @> is true
where any of several values is equal. Where the attribute is missing every comparison is false, != too. An
empty expression is true. CURRENT_VMS = 7 is true on the host that has VM 7.

Reading and evaluating use explicit stacks: the depth of an expression is bounded, not that of Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from one_preempt.core.matching.expressions.attributes import (
    HOST_LAYOUT,
    AttributeTable,
    BoolArray,
    Column,
)
from one_preempt.core.matching.expressions.column_texts import COMPARISON_TRIALS
from one_preempt.core.matching.expressions.glob import Glob, compile_glob
from one_preempt.core.matching.expressions.tokens import (
    MAX_DEPTH,
    ExpressionError,
    Token,
    TokenKind,
    float_of,
    integer_of,
    tokenize,
)

MAX_COMPARISONS = 1024
MAX_PATTERNS = 200
CURRENT_VMS = "CURRENT_VMS"
_ROWS_A_TRIAL = 64

_NAME = re.compile(r"/?[A-Za-z_][\w.-]*(?:/[A-Za-z_][\w.-]*)*", re.ASCII)

Residents = Callable[[int], Sequence[int]]
"""The rows (hosts) on which a VM is."""


def nowhere(_: int) -> Sequence[int]:
    """No VM is anywhere."""
    return ()


class Comparison(Struct, frozen=True):
    """`name operator value`. `value` None stands for "", which nothing matches."""

    name: str
    operator: str
    value: int | float | Glob | None

    def mask(self, table: AttributeTable, residents: Residents) -> BoolArray:
        """The rows for which it is true."""
        if self.name == CURRENT_VMS and table.layout is HOST_LAYOUT:
            table.trials += COMPARISON_TRIALS + len(table) // _ROWS_A_TRIAL
            return self._mask_of_current_vms(len(table), residents)
        return table.remembered((self.name, self.operator, self._key), lambda: self._mask_of_attribute(table))

    @property
    def _key(self) -> object:
        return self.value.pattern if isinstance(self.value, Glob) else (type(self.value), self.value)

    def pattern_trials(self, table: AttributeTable) -> int:
        """What it takes on this table beyond what every comparison takes; the same whatever is remembered."""
        if not isinstance(self.value, Glob) or (self.name == CURRENT_VMS and table.layout is HOST_LAYOUT):
            return 0
        column = None if self.value.literal is not None else table.column(self.name)
        if column is None:
            return 0
        texts = column.all_texts if self.operator == "@>" else column.first_texts[0]
        return texts.trials(self.value)

    def _mask_of_attribute(self, table: AttributeTable) -> BoolArray:
        table.trials += COMPARISON_TRIALS + len(table) // _ROWS_A_TRIAL + self.pattern_trials(table)
        column = table.column(self.name)
        if column is None or self.value is None:
            return np.zeros(len(table), dtype=np.bool_)
        return column.spread(self._verdicts(column, self.value))

    def _mask_of_current_vms(self, count: int, residents: Residents) -> BoolArray:
        mask = np.zeros(count, dtype=np.bool_)
        if isinstance(self.value, int | float):
            mask[list(residents(int(self.value)))] = True
        if self.operator == "!=":
            return ~mask
        return mask if self.operator == "=" else np.zeros(count, dtype=np.bool_)

    def _verdicts(self, column: Column, value: int | float | Glob) -> BoolArray:
        if isinstance(value, Glob):
            if self.operator == "@>":
                return column.all_texts.matching(value)
            texts, present = column.first_texts
            return texts.matching(value) if self.operator == "=" else present & ~texts.matching(value)
        if self.operator == "@>":
            return column.holding(value)
        numbers, present = column.integers if isinstance(value, int) else column.numbers
        limit = value if isinstance(value, int) else np.float32(value)
        if self.operator == "=":
            outcome = numbers == limit
        elif self.operator == "!=":
            outcome = numbers != limit
        else:
            outcome = numbers > limit if self.operator == ">" else numbers < limit
        return np.asarray(outcome & present, dtype=np.bool_)


class Requirement(Struct, frozen=True):
    """A requirement that was read; `program` is its postfix form: comparisons and "&", "|", "!"."""

    program: tuple[Comparison | str, ...]

    def pattern_trials(self, table: AttributeTable) -> int:
        """What its patterns take on this table, if none of them was tried before."""
        return sum(step.pattern_trials(table) for step in self.program if isinstance(step, Comparison))

    def unknown_names(self, table: AttributeTable) -> tuple[str, ...]:
        """The attributes that it asks for and no row has, in their order: mostly a name that is misspelt."""
        names = dict.fromkeys(step.name for step in self.program if isinstance(step, Comparison))
        return tuple(name for name in names if name != CURRENT_VMS and table.column(name) is None)

    def mask(self, table: AttributeTable, residents: Residents = nowhere) -> BoolArray:
        """The rows that meet it; `residents` tells where VMs are, for CURRENT_VMS."""
        stack: list[BoolArray] = []
        for step in self.program:
            if isinstance(step, Comparison):
                stack.append(step.mask(table, residents))
            elif step == "!":
                stack.append(~stack.pop())
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(left & right if step == "&" else left | right)
        return stack.pop() if stack else np.ones(len(table), dtype=np.bool_)


def parse_requirement(text: str) -> Requirement:
    """Read a requirement; raises ExpressionError with the column and what was expected there."""
    return _Parser(text).parse()


class _Level(Struct):
    """What waits at one level of parentheses: an operator for its right side, negations for their operand."""

    opened_at: int
    operator: str = ""
    negated: bool = False


class _Parser:
    """Turns tokens into the postfix program."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._token = next(self._tokens)
        self._program: list[Comparison | str] = []
        self._levels = [_Level(0)]
        self._comparisons = 0
        self._patterns = 0

    def parse(self) -> Requirement:
        if self._token.kind is not TokenKind.END:
            self._read_operand()
            while self._operator_follows():
                self._levels[-1].operator = self._advance().text
                self._read_operand()
        return Requirement(tuple(self._program))

    def _read_operand(self) -> None:
        """Read negations and opening parentheses up to and including a comparison."""
        while True:
            token = self._token
            if self._at("!"):
                self._levels[-1].negated = not self._levels[-1].negated
                self._advance()
            elif self._at("("):
                if len(self._levels) > MAX_DEPTH:
                    raise ExpressionError(token.position, f"more than {MAX_DEPTH} parentheses inside each other")
                self._levels.append(_Level(token.position))
                self._advance()
            elif token.kind is TokenKind.TEXT:
                self._program.append(self._comparison())
                self._complete()
                return
            else:
                raise ExpressionError(token.position, f"expected an attribute, '!' or '(', found {token.shown}")

    def _operator_follows(self) -> bool:
        """Close the parentheses that end here; True where an operator follows, False at the end."""
        while self._at(")"):
            if len(self._levels) == 1:
                raise ExpressionError(self._token.position, "this parenthesis was never opened")
            self._levels.pop()
            self._advance()
            self._complete()
        if self._token.kind is TokenKind.END:
            if len(self._levels) > 1:
                raise ExpressionError(self._levels[-1].opened_at, "this parenthesis is never closed")
            return False
        if not (self._at("&") or self._at("|")):
            raise ExpressionError(self._token.position, f"expected '&', '|' or the end, found {self._token.shown}")
        return True

    def _complete(self) -> None:
        """An operand of the innermost level is complete: apply what waited for it."""
        level = self._levels[-1]
        if level.negated:
            self._program.append("!")
        if level.operator:
            self._program.append(level.operator)
        level.negated, level.operator = False, ""

    def _comparison(self) -> Comparison:
        name = self._advance()
        if not _NAME.fullmatch(name.text):
            raise ExpressionError(
                name.position, f'{name.shown} is no attribute: write a name, or a path such as "TEMPLATE/RACK"'
            )
        operator = self._operator(name)
        value = self._advance()
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise ExpressionError(name.position, f"more than {MAX_COMPARISONS} comparisons")
        return Comparison(name.text, operator, self._value(operator, value))

    def _operator(self, name: Token) -> str:
        token = self._advance()
        if token.kind is TokenKind.SYMBOL and token.text in "=<>":
            return token.text
        second = {"!": "=", "@": ">"}.get(token.text) if token.kind is TokenKind.SYMBOL else None
        if second is None:
            raise ExpressionError(token.position, f"expected =, !=, >, < or @> after {name.shown}, found {token.shown}")
        following = self._advance()
        if following.kind is not TokenKind.SYMBOL or following.text != second:
            raise ExpressionError(
                following.position, f"expected '{second}' after '{token.text}', found {following.shown}"
            )
        return token.text + second

    def _value(self, operator: str, token: Token) -> int | float | Glob | None:
        if token.kind is TokenKind.INTEGER:
            return integer_of(token)
        if token.kind is TokenKind.FLOAT:
            return float_of(token)
        if token.kind is not TokenKind.TEXT:
            raise ExpressionError(token.position, f"expected a value after '{operator}', found {token.shown}")
        if operator in "<>":
            raise ExpressionError(token.position, f"'{operator}' compares numbers, found {token.shown}")
        if not token.text:
            return None
        return self._pattern(token)

    def _pattern(self, token: Token) -> Glob:
        try:
            glob = compile_glob(token.text)
        except ValueError as error:
            raise ExpressionError(token.position, str(error)) from None
        self._patterns += glob.literal is None
        if self._patterns > MAX_PATTERNS:
            raise ExpressionError(token.position, f"more than {MAX_PATTERNS} patterns")
        return glob

    def _at(self, symbol: str) -> bool:
        return self._token.kind is TokenKind.SYMBOL and self._token.text == symbol

    def _advance(self) -> Token:
        token = self._token
        if token.kind is not TokenKind.END:
            self._token = next(self._tokens)
        return token
