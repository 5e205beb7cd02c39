"""Frozen dataclasses made at the price of plain ones, where thousands a second are made.

The constructor of a frozen dataclass goes around its own lock for every field, which costs ten times what filling the
field costs. Here fields are filled while the object belongs to a twin class that may be written to and has the same
slots; then it is handed over. As dataclasses do for their own constructors, the function that does so is written as
text, one line a field: that is all it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import ParamSpec, Protocol, TypeVar, cast

Parameters = ParamSpec("Parameters")
Frozen = TypeVar("Frozen")


def quick_constructor(frozen: Callable[Parameters, Frozen]) -> Callable[Parameters, Frozen]:
    """A constructor with the parameters and results of `frozen`, a frozen dataclass with slots.

    Raises `TypeError` for classes that do more at their construction than fill fields.
    """
    names: dict[str, object] = {}
    parameters, lines = [], []
    for each in sorted(_filled(frozen), key=lambda each: bool(each.kw_only)):
        if each.kw_only and "*" not in parameters:
            parameters.append("*")
        parameters.append(each.name + _default(each, names))
        made_anew = f"default_{each.name}() if {each.name} is absent else {each.name}"
        lines.append(f"made.{each.name} = {each.name if each.default_factory is MISSING else made_anew}")
    return cast(Callable[Parameters, Frozen], _written(frozen, parameters, lines, names))


class Variant(Protocol[Frozen]):
    """Makes a copy of an object with other values in some fields."""

    def __call__(self, original: Frozen, *values: object) -> Frozen:
        """`values` are those of the fields that were named, in their order."""


def quick_variant(frozen: type[Frozen], *names: str) -> Variant[Frozen]:
    """What makes copies that differ in the fields `names`.

    Raises `TypeError` like `quick_constructor`, and for names that are no fields.
    """
    every = [each.name for each in _filled(frozen)]
    if not set(names) <= set(every):
        raise TypeError(f"{frozen.__name__} has not all of the fields {', '.join(names)}")
    lines = [f"made.{name} = {name if name in names else f'original.{name}'}" for name in every]
    return cast(Variant[Frozen], _written(frozen, ["original", *names, "/"], lines, {}))


def _filled(frozen: object) -> tuple[Field[object], ...]:
    """The fields of a class that does nothing but fill them."""
    if not (isinstance(frozen, type) and is_dataclass(frozen) and "__slots__" in vars(frozen)):
        raise TypeError(f"{frozen} is no dataclass with slots")
    if hasattr(frozen, "__post_init__") or not all(each.init for each in fields(frozen)):
        raise TypeError(f"{frozen.__name__} does more at its construction than fill fields")
    return fields(frozen)


def _default(each: Field[object], names: dict[str, object]) -> str:
    """How a parameter says its default, which is one of `names` from now on."""
    if each.default is not MISSING:
        names[f"default_{each.name}"] = each.default
        return f"=default_{each.name}"
    if each.default_factory is not MISSING:
        names[f"default_{each.name}"] = each.default_factory
        return "=absent"
    return ""


def _written(frozen: object, parameters: Sequence[str], lines: Sequence[str], names: dict[str, object]) -> object:
    """A function that makes a twin, fills it by `lines`, and hands it over."""
    assert isinstance(frozen, type)
    twin = type(frozen.__name__, (), {"__slots__": tuple(each.name for each in fields(frozen))})
    body = "".join(f"    {line}\n" for line in ("made = twin()", *lines, "made.__class__ = frozen", "return made"))
    names |= {"twin": twin, "frozen": frozen, "absent": object()}
    exec(f"def {frozen.__name__}({', '.join(parameters)}):\n{body}", names)
    return names[frozen.__name__]
