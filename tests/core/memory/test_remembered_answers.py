"""What was found of leases holds for the very objects that it followed from, and for no others."""

from __future__ import annotations

from one_preempt.core.memory.remembered_answers import RememberedAnswers


def test_an_answer_holds_for_its_lease_and_the_very_objects_alone() -> None:
    answers, at, equal = RememberedAnswers(), object(), ([1], [1])
    answers.keep(7, (equal[0], at), leases=10)

    assert answers.holds(7, (equal[0], at))
    assert not answers.holds(7, (equal[1], at))
    assert not answers.holds(7, (equal[0], object()))
    assert not answers.holds(8, (equal[0], at))


def test_no_more_answers_are_kept_than_of_twice_as_many_leases_as_there_are() -> None:
    answers, at = RememberedAnswers(), object()
    for lease_id in range(1000):
        answers.keep(lease_id, (at,), leases=10)

    assert sum(answers.holds(lease_id, (at,)) for lease_id in range(1000)) <= 21
    assert answers.holds(999, (at,))
