"""Student's t distribution, by the regularized incomplete beta function."""

from __future__ import annotations

import math
from functools import cache

_ITERATIONS = 500
_PRECISION = 1e-15
_TINY = 1e-300
_BISECTIONS = 200


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), regularized, by its continued fraction (DLMF 8.17.22); `a` and `b` > 0, 0 <= x <= 1."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    # The fraction converges fast below its mean; above, the other tail is taken.
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / a * _continued_fraction(a, b, x)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """1 / (1 + d1 / (1 + d2 / ...)), by Lentz's method."""
    value, c, d = 1.0, 1.0, 0.0
    for step in range(_ITERATIONS):
        m = step // 2
        if step == 0:
            numerator = 1.0
        elif step % 2:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 + numerator * d
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = 1 + numerator / (c if abs(c) > _TINY else _TINY)
        value *= c * d
        if step and abs(c * d - 1) < _PRECISION:
            break
    return value - 1


def two_sided_p(t: float, degrees: float) -> float:
    """How probable it is that |T| >= |t|; `degrees` of freedom, > 0."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


# A table asks for the same few again and again, each some hundred fractions.
@cache
def quantile(confidence: float, degrees: float) -> float:
    """The t that |T| exceeds with probability 1 - `confidence`: 2.228 for 0.95 and 10 degrees of freedom."""
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > 1 - confidence:
        high *= 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if two_sided_p(middle, degrees) > 1 - confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2
