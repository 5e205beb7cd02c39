"""Objects from the quick constructor cannot be told from those of their class's own."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from one_preempt.core.model.host import Host
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Transition
from one_preempt.core.model.plan import Action, ActionKind, Reason
from one_preempt.core.model.quick_construction import quick_constructor, quick_variant
from one_preempt.core.model.virtual_machine import HistoryRecord, VirtualMachine


@dataclass(frozen=True, slots=True)
class Told:
    name: str
    number: int = 7
    words: tuple[str, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Labelled:
    label: str = field(default="a", kw_only=True)
    number: int


@dataclass(frozen=True, slots=True)
class Checked:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError


@dataclass(frozen=True)
class WithoutSlots:
    number: int


def test_it_makes_what_the_class_itself_makes() -> None:
    quick = quick_constructor(Told)
    made, usual = quick("a", words=("b",)), Told("a", words=("b",))
    assert made == usual
    assert type(made) is Told
    assert repr(made) == repr(usual)
    assert replace(made, number=8) == replace(usual, number=8)
    assert pickle.loads(pickle.dumps(made)) == usual


def test_what_it_makes_is_frozen_and_shares_no_default() -> None:
    quick = quick_constructor(Told)
    first, second = quick("a"), quick("a")
    assert first.notes is not second.notes
    with pytest.raises(FrozenInstanceError):
        first.number = 8  # type: ignore[misc]
    with pytest.raises(TypeError):
        quick()  # type: ignore[call-arg]


def test_a_variant_differs_in_what_was_named_alone() -> None:
    before = Told("a", 3, ("b",), {"c": "d"})
    after = quick_variant(Told, "words", "name")(before, ("e", "f"), "g")
    assert after == replace(before, words=("e", "f"), name="g")
    assert after.notes is before.notes
    assert type(after) is Told


@pytest.mark.parametrize("made", [VirtualMachine, HistoryRecord, Host, Action, ActionRecord, LeaseRecord, Transition])
def test_it_fits_the_values_of_which_there_are_most(made: type) -> None:
    assert type(quick_constructor(made)(*range(len(made.__match_args__)))) is made  # type: ignore[attr-defined]


def test_hashes_agree() -> None:
    given = "deploy-1", ActionKind.DEPLOY, 1, 1, Reason("placed", "there is room")
    assert hash(quick_constructor(Action)(*given)) == hash(Action(*given))


def test_a_variant_of_all_fields_keeps_none() -> None:
    vary = quick_variant(Told, "notes", "words", "number", "name")
    assert vary(Told("a"), {}, ("b",), 1, "c") == Told("c", 1, ("b",))


def test_a_variant_in_what_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        quick_variant(Told, "name", "colour")


def test_what_is_to_be_named_must_be_named() -> None:
    quick = quick_constructor(Labelled)
    assert quick(3, label="b") == Labelled(3, label="b")
    assert quick(3) == Labelled(3)
    with pytest.raises(TypeError):
        quick(3, "b")  # type: ignore[call-arg]


@pytest.mark.parametrize("unfit", [Checked, WithoutSlots, len])
def test_what_is_more_than_fields_is_refused(unfit: type) -> None:
    with pytest.raises(TypeError):
        quick_constructor(unfit)
