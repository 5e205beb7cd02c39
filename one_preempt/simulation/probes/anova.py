"""Two-way analysis of variance with replications (JPDC12 tests its policies over its sweeps so)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from one_preempt.simulation.probes.statistics import mean
from one_preempt.simulation.probes.student_t import incomplete_beta

Cells = Sequence[Sequence[Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Effect:
    """What a factor accounts for: F with its degrees of freedom, and how probable so much is by chance."""

    f: float
    degrees: int
    residual_degrees: int
    p: float


@dataclass(frozen=True, slots=True)
class TwoWayAnova:
    """The effects of the rows, of the columns, and of their interaction."""

    rows: Effect
    columns: Effect
    interaction: Effect


def two_way_anova(cells: Cells) -> TwoWayAnova:
    """`cells[row][column]` holds the replications: equally many, at least two, in each cell of at least two by two.

    Raises:
        ValueError: The cells are not so.
    """
    a, b, n = len(cells), len(cells[0]), len(cells[0][0])
    if min(a, b, n) < 2 or any(len(row) != b or any(len(cell) != n for cell in row) for row in cells):
        raise ValueError("at least two rows, two columns and two replications are needed, equally many everywhere")
    means = [[mean(cell) for cell in row] for row in cells]
    whole = mean([value for row in means for value in row])
    of_row = [mean(row) for row in means]
    of_column = [mean([row[column] for row in means]) for column in range(b)]
    both = n * math.fsum(
        (means[row][column] - of_row[row] - of_column[column] + whole) ** 2 for row in range(a) for column in range(b)
    )
    within = math.fsum((value - mean(cell)) ** 2 for row in cells for cell in row for value in cell)
    degrees = a * b * (n - 1)
    residual = within / degrees
    return TwoWayAnova(
        rows=_effect(b * n * math.fsum((each - whole) ** 2 for each in of_row), a - 1, residual, degrees),
        columns=_effect(a * n * math.fsum((each - whole) ** 2 for each in of_column), b - 1, residual, degrees),
        interaction=_effect(both, (a - 1) * (b - 1), residual, degrees),
    )


def _effect(squares: float, degrees: int, residual: float, residual_degrees: int) -> Effect:
    if not residual:
        return Effect(math.inf if squares else 0.0, degrees, residual_degrees, 0.0 if squares else 1.0)
    f = squares / degrees / residual
    return Effect(f, degrees, residual_degrees, exceeds_p(f, degrees, residual_degrees))


def exceeds_p(f: float, degrees: float, residual_degrees: float) -> float:
    """How probable it is that a variable with Fisher's distribution exceeds `f`."""
    return incomplete_beta(residual_degrees / 2, degrees / 2, residual_degrees / (residual_degrees + degrees * f))
