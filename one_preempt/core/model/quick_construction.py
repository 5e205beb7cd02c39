"""Frozen dataclasses made at the price of plain ones, where thousands a second are made.

The constructor of a frozen dataclass goes around its own lock for every field, which costs ten times what filling the
field costs. Here fields are filled while the object belongs to a twin class that may be written to and has the same
slots; then it is handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import field, fields, is_dataclass, make_dataclass
from operator import attrgetter
from typing import ParamSpec, Protocol, TypeVar, cast

Parameters = ParamSpec("Parameters")
Frozen = TypeVar("Frozen")
Made = TypeVar("Made", covariant=True)


def quick_constructor(frozen: Callable[Parameters, Frozen]) -> Callable[Parameters, Frozen]:
    """A constructor with the parameters and results of `frozen`, a frozen dataclass with slots.

    Raises `TypeError` for classes that do more at their construction than fill fields.
    """
    return cast(Callable[Parameters, Frozen], _twin(frozen, ()))


class Variant(Protocol[Frozen]):
    """Makes a copy of an object with other values in some fields."""

    def __call__(self, original: Frozen, *values: object) -> Frozen:
        """`values` are those of the fields that were named, in their order."""


def quick_variant(frozen: type[Frozen], *names: str) -> Variant[Frozen]:
    """What makes copies that differ in the fields `names`; two others must be left at least.

    Raises `TypeError` like `quick_constructor`.
    """
    made = cast(_Maker[Frozen], _twin(frozen, names))
    kept = attrgetter(*(name for name in frozen.__match_args__ if name not in names))  # type: ignore[attr-defined]

    def variant(original: Frozen, *values: object) -> Frozen:
        return made(*values, *kept(original))

    return variant


class _Maker(Protocol[Made]):
    def __call__(self, *values: object) -> Made: ...


def _twin(frozen: object, names: Sequence[str]) -> type:
    """A class with the same slots whose constructor hands over what it made.

    With `names` it takes those first, and no field has a default.
    """
    if not (isinstance(frozen, type) and is_dataclass(frozen) and "__slots__" in vars(frozen)):
        raise TypeError(f"{frozen} is no dataclass with slots")
    if hasattr(frozen, "__post_init__") or not all(each.init for each in fields(frozen)):
        raise TypeError(f"{frozen.__name__} does more at its construction than fill fields")

    def hand_over(filled: object) -> None:
        filled.__class__ = frozen

    order = sorted(fields(frozen), key=lambda each: names.index(each.name) if each.name in names else len(names))
    alike = [(each.name, object, field() if names else copy(each)) for each in order]
    return make_dataclass(frozen.__name__, alike, namespace={"__post_init__": hand_over}, slots=True, eq=False)
