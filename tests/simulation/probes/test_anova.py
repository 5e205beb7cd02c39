"""Analysis of variance against printed tables, closed forms and t-tests."""

from __future__ import annotations

import math

import pytest

from one_preempt.simulation.probes.anova import exceeds_p, two_way_anova
from one_preempt.simulation.probes.student_t import two_sided_p

# The upper 5 % points of F as every table prints them.
PRINTED = {(1, 10): 4.965, (2, 10): 4.103, (3, 12): 3.490, (4, 20): 2.866, (5, 5): 5.050, (10, 30): 2.165}


@pytest.mark.parametrize(("degrees", "printed"), PRINTED.items())
def test_five_per_cent_points_are_those_of_the_tables(degrees: tuple[int, int], printed: float) -> None:
    assert exceeds_p(printed, *degrees) == pytest.approx(0.05, abs=6e-5)


def test_one_degree_of_freedom_is_a_t_test() -> None:
    for t in (0.3, 1.0, 2.5):
        assert exceeds_p(t * t, 1, 7) == pytest.approx(two_sided_p(t, 7), rel=1e-12)


def test_a_table_recounted_by_hand() -> None:
    # Means of the cells 5 7 / 9 15, whole 9: rows 6 and 12, columns 7 and 11, interaction +-1, within 2 a cell.
    found = two_way_anova([[[4.0, 6.0], [6.0, 8.0]], [[8.0, 10.0], [14.0, 16.0]]])
    assert (found.rows.f, found.columns.f, found.interaction.f) == pytest.approx((72 / 2, 32 / 2, 8 / 2))
    assert (found.rows.degrees, found.rows.residual_degrees) == (1, 4)
    assert found.rows.p == pytest.approx(two_sided_p(6, 4))
    assert found.rows.p < 0.01 < found.columns.p < 0.02 < found.interaction.p


def test_without_any_spread_an_effect_is_certain_or_absent() -> None:
    found = two_way_anova([[[1.0, 1.0], [1.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]])
    assert (found.rows.f, found.rows.p) == (math.inf, 0)
    assert (found.columns.f, found.columns.p) == (0, 1)


@pytest.mark.parametrize("cells", [[[[1.0, 2.0]]], [[[1.0], [2.0]], [[1.0], [2.0]]], [[[1.0, 2.0]] * 2, [[1.0, 2.0]]]])
def test_unequal_or_too_few_cells_are_refused(cells: list[list[list[float]]]) -> None:
    with pytest.raises(ValueError, match="equally many everywhere"):
        two_way_anova(cells)
