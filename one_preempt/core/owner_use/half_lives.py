"""Fading by half-lives, in whole numbers: the same on every machine, and however often it is computed.

What is used at a steady rate and fades at the same time is known in closed form. So it does not matter whether a day
is measured at once or in a thousand parts, except for the rounding of each part.
"""

from __future__ import annotations

from math import isqrt

_BITS = 62
_ONE = 1 << _BITS
# Parts of a half-life are counted in 2 ** -48.
_PARTS = 48
# 1 / ln 2 = 1.442695040888963407...
_PER_LN_2, _OF = 1_442_695_040_888_963_407, 10**18


def _roots() -> tuple[int, ...]:
    """What is left after a half, a quarter, an eighth... of a half-life, as parts of `_ONE`."""
    found = [isqrt(1 << (2 * _BITS - 1))]
    while len(found) < _PARTS:
        found.append(isqrt(found[-1] << _BITS))
    return tuple(found)


_ROOTS = _roots()


def _left(elapsed_s: int, half_life_s: int) -> int:
    """What is left of `_ONE`: half of it after each half-life."""
    halvings, rest_s = divmod(max(0, elapsed_s), half_life_s)
    parts, left = (rest_s << _PARTS) // half_life_s, _ONE
    for place, root in enumerate(_ROOTS, 1):
        if parts >> (_PARTS - place) & 1:
            left = left * root >> _BITS
    return left >> halvings


def faded(amount: int, elapsed_s: int, half_life_s: int) -> int:
    """What an amount counts after so many seconds, rounded; a negative time is none."""
    return (amount * _left(elapsed_s, half_life_s) + _ONE // 2) >> _BITS


def faded_use(rate: int, lasted_s: int, half_life_s: int) -> int:
    """What counts at the end of so many seconds in which `rate` was used in each, and faded; rounded.

    The integral of rate x 2 ** -(t / half-life) over t from 0 to `lasted_s`.
    """
    whole = _OF << _BITS
    return (rate * half_life_s * _PER_LN_2 * (_ONE - _left(lasted_s, half_life_s)) + whole // 2) // whole
