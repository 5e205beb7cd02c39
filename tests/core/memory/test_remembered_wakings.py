"""When hosts are woken is what would be found anew, whatever was found before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from one_preempt.core.availability.timeline import Stay
from one_preempt.core.memory.remembered_wakings import RememberedWakings, Waking, Wakings

RULES, OTHER_RULES = object(), object()


def stay(lease_id: int, start_s: int, rows: tuple[int, ...]) -> Stay:
    return Stay(lease_id, start_s, None, rows, ((1, 1),) * len(rows), firm=True)


def counted(stays: list[Stay], boot_s: int, now_s: int) -> dict[int, Waking]:
    """Each host a boot before the first who starts there, and never before now."""
    starts_s: dict[int, int] = {}
    for one in stays:
        for row in one.host_rows:
            starts_s[row] = min(starts_s.get(row, one.start_s), one.start_s)
    return {row: Waking(start_s, max(start_s - boot_s, now_s)) for row, start_s in starts_s.items()}


many_stays = st.lists(
    st.builds(stay, st.integers(1, 3), st.integers(0, 40), st.sets(st.integers(0, 4), min_size=1).map(tuple)),
    max_size=3,
    unique_by=lambda one: one.lease_id,
)


@given(st.lists(st.tuples(st.sampled_from(range(3)), st.booleans(), st.integers(-2, 9)), max_size=12), st.data())
def test_it_is_what_would_be_found_anew(happened: list[tuple[int, bool, int]], data: st.DataObject) -> None:
    known, now_s = RememberedWakings(), 0
    choices = [data.draw(many_stays) for _ in range(3)]
    for chosen, other, later_s in happened:
        now_s += later_s
        under, boot_s = ((OTHER_RULES,), 5) if other else ((RULES,), 9)
        stays = list(choices[chosen])
        found = known.of(under, stays, now_s, lambda: counted(stays, boot_s, now_s))  # noqa: B023
        anew = Wakings(counted(stays, boot_s, now_s))
        assert found.by_row == anew.by_row
        assert [found.of(one) for one in stays] == [anew.of(one) for one in stays]


def test_a_host_is_woken_for_whoever_starts_there_first() -> None:
    first, second = stay(1, 20, (0, 1)), stay(2, 30, (1, 2, 7))
    wakings = Wakings({0: Waking(20, 10), 1: Waking(20, 8), 2: Waking(30, 19)})
    assert wakings.of(first) == ((0, 1), 8)
    assert wakings.of(second) == ((1, 2), 19)
    assert wakings.of(stay(2, 40, (1,))) == ((1,), None)
    assert wakings.of(stay(3, 40, (7,))) == ((), None)


def test_what_was_found_is_asked_for_once_until_the_first_is_due() -> None:
    known, asked, stays = RememberedWakings(), list[int](), [stay(1, 20, (0,))]

    def found_at(now_s: int) -> Wakings:
        def find() -> dict[int, Waking]:
            asked.append(now_s)
            return counted(stays, 5, now_s)

        return known.of((RULES,), stays, now_s, find)

    assert [found_at(now_s).first_s for now_s in (0, 10, 15, 16, 16, 17)] == [15, 15, 15, 16, 16, 17]
    assert asked == [0, 16, 17]
