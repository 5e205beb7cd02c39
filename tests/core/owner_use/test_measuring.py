"""What owners have used: measured every few minutes, against a naive recount second by second."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.admission.rules import AdmissionRules
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.ledger import Ledger, LedgerChanges
from one_preempt.core.model.owner_use import Owner, OwnerUse, UseRules
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.core.owner_use.measuring import MEASURED_EVERY_S, with_use
from one_preempt.core.reconcile import reconcile
from tests.core.matching.small_cloud import vm
from tests.core.owner_use.small_use import CPU_HOUR, HOUR_S, NOW_S, on_host, owned, row, seen

DAY_S = 86_400
RULES = UseRules(half_life_s=7 * DAY_S, counts_memory=False)


class Measurer:
    """Cycle after cycle, with a ledger of what was measured alone."""

    def __init__(self, known: tuple[OwnerUse, ...] = (), rules: UseRules = RULES) -> None:
        self.known = known
        self.rules = rules
        self.last: ClusterState | None = None
        self.measurements = 0

    def look(self, pool: PoolSnapshot, now_s: int, *, may_measure: bool = True) -> LedgerChanges:
        """One cycle at an instant."""
        reconciled = reconcile(pool, Ledger(), AdmissionRules(), now_s)
        found = with_use(reconciled, self.known, self.rules, self.last, may_measure=may_measure)
        self.last = found.state
        if found.changes.owner_use is not None:
            self.known = found.changes.owner_use
            self.measurements += 1
        return found.changes

    def dies(self) -> None:
        """The process forgets all but the ledger."""
        self.last = None

    @property
    def used(self) -> dict[int, int]:
        """By user id."""
        return {one.uid: one.used_cpu_centi_s for one in self.known}


def test_what_runs_when_the_order_is_first_chosen_counts_since_it_came_to_its_host() -> None:
    measurer = Measurer()
    measurer.look(seen([on_host(1, NOW_S - HOUR_S), on_host(2, NOW_S - 60, uid=6), vm(3)]), NOW_S)
    assert measurer.used == {5: pytest.approx(CPU_HOUR, rel=0.01), 6: pytest.approx(6000, rel=0.01)}
    assert [(one.group_name, one.user_name, one.measured_at_s) for one in measurer.known] == [
        ("group1", "user5", NOW_S),
        ("group1", "user6", NOW_S),
    ]


def test_it_is_measured_every_few_minutes_and_nothing_is_written_in_between() -> None:
    measurer, pool = Measurer(), seen([on_host(1, NOW_S - 1000)])
    uses = []
    for now_s in range(NOW_S, NOW_S + 2 * MEASURED_EVERY_S, 15):
        measurer.look(pool, now_s)
        assert measurer.last is not None
        uses.append(measurer.last.use)
    assert measurer.measurements == 2
    # The very object, so that nobody has to compare it.
    assert len({id(use) for use in uses}) == 2


def test_after_a_restart_it_goes_on_from_the_ledger_and_counts_nothing_twice() -> None:
    pool = seen([on_host(1, NOW_S - 1000)])
    restarted, patient = Measurer(), Measurer()
    for now_s in range(NOW_S, NOW_S + 4 * HOUR_S, 50):
        restarted.dies()
        restarted.look(pool, now_s)
        patient.look(pool, now_s)
    assert restarted.known == patient.known


def test_whoever_ran_while_the_daemon_was_down_for_a_day_has_used_it_if_it_still_runs() -> None:
    measurer = Measurer((row(1, 5, 0), row(1, 6, 0)))
    measurer.look(seen([on_host(1, NOW_S - HOUR_S), on_host(2, NOW_S + DAY_S - 600, uid=6)]), NOW_S + DAY_S)
    day = 100 * DAY_S
    assert measurer.used == {5: pytest.approx(day, rel=0.06), 6: pytest.approx(60_000, rel=0.01)}


def test_a_vm_that_lives_shorter_than_a_measurement_takes_is_counted() -> None:
    measurer = Measurer((row(1, 6, CPU_HOUR),))
    measurer.look(seen([]), NOW_S + 10)
    for number in range(10):
        at_s = NOW_S + 20 + 20 * number
        measurer.look(seen([on_host(number, at_s - 5)]), at_s)
        measurer.look(seen([]), at_s + 10)
    measurer.look(seen([]), NOW_S + MEASURED_EVERY_S)
    assert measurer.used[5] == pytest.approx(10 * 15 * 100, rel=0.01)


def test_a_vm_that_is_given_away_has_used_for_each_owner_what_it_did_as_his() -> None:
    measurer, mine = Measurer(), on_host(1, NOW_S)
    measurer.look(seen([mine]), NOW_S + 100)
    measurer.look(seen([owned(mine, 2, 6)]), NOW_S + 200)
    measurer.look(seen([owned(mine, 2, 6)]), NOW_S + 100 + MEASURED_EVERY_S)
    assert measurer.used == {5: pytest.approx(20_000, rel=0.01), 6: pytest.approx(20_000, rel=0.01)}


def test_use_fades_and_what_is_left_of_it_is_forgotten_in_the_end() -> None:
    measurer = Measurer((row(1, 5, 8000),))
    measurer.look(seen([]), NOW_S + 7 * DAY_S)
    assert measurer.used == {5: 4000}
    measurer.look(seen([]), NOW_S + 365 * DAY_S)
    assert measurer.known == ()


def test_a_user_who_was_deleted_keeps_the_use_of_his_group_until_it_has_faded() -> None:
    measurer = Measurer((row(1, 5, CPU_HOUR), row(1, 6, CPU_HOUR)))
    measurer.look(seen([on_host(1, NOW_S)]), NOW_S + HOUR_S)
    assert measurer.last is not None
    assert measurer.last.use.by_group[1] == sum(measurer.used.values())
    assert {one.uid: one.user_name for one in measurer.known} == {5: "user5", 6: "user6"}


def test_a_clock_that_is_set_back_costs_an_interval_and_nothing_else() -> None:
    measurer = Measurer((row(1, 5, CPU_HOUR, NOW_S + 50 * DAY_S),))
    measurer.look(seen([on_host(1, NOW_S - 100, uid=6)]), NOW_S)
    assert measurer.known == (row(1, 5, CPU_HOUR, NOW_S),)
    measurer.look(seen([on_host(1, NOW_S - 100, uid=6)]), NOW_S + MEASURED_EVERY_S)
    assert measurer.used[6] == pytest.approx(100 * MEASURED_EVERY_S, rel=0.01)


def test_by_a_clock_that_is_doubted_nothing_is_measured() -> None:
    measurer = Measurer((row(1, 5, CPU_HOUR),))
    pool = seen([on_host(1, NOW_S, uid=6)])
    changes = measurer.look(pool, NOW_S + 365 * DAY_S, may_measure=False)
    assert changes.owner_use is None
    measurer.look(pool, NOW_S + HOUR_S)
    assert measurer.used[5] == pytest.approx(CPU_HOUR, rel=0.01)


def test_memory_counts_where_a_vm_takes_more_of_it_than_of_the_cpus() -> None:
    pool = seen([on_host(1, NOW_S), on_host(2, NOW_S, uid=6)])
    # The host has 10 MiB for each hundredth of a CPU.
    large = replace(pool.vms[1], cpu_centi=100, memory_mib=4000)
    for counts_memory, centi in ((True, 400), (False, 100)):
        measurer = Measurer(rules=UseRules(7 * DAY_S, counts_memory=counts_memory))
        measurer.look(replace(pool, vms={**pool.vms, 1: large}), NOW_S + 1000)
        assert measurer.used == {
            5: pytest.approx(centi * 1000, rel=0.01),
            6: pytest.approx((102 if counts_memory else 100) * 1000, rel=0.01),
        }


def test_without_hosts_only_cpus_count() -> None:
    measurer = Measurer(rules=UseRules())
    measurer.look(replace(seen([on_host(1, NOW_S)]), hosts={}), NOW_S + 1000)
    assert measurer.used == {5: pytest.approx(100_000, rel=0.01)}


# -- a naive recount -----------------------------------------------------------------------------------------


def at_instant(lives: list[tuple[int, int, int, int]], at_s: int) -> list[VirtualMachine]:
    """The VMs there are then: each life is a user, a number of CPUs, a beginning and an end."""
    return [
        on_host(number, NOW_S + begins_s, gid=uid % 2, uid=uid, cpu_centi=100 * cpus)
        for number, (uid, cpus, begins_s, ends_s) in enumerate(lives)
        if NOW_S + begins_s <= at_s < NOW_S + ends_s
    ]


def recounted(lives: list[tuple[int, int, int, int]], now_s: int, half_life_s: int) -> dict[Owner, float]:
    """Second by second, in fractions."""
    used: Counter[Owner] = Counter()
    for uid, cpus, begins_s, ends_s in lives:
        for second in range(NOW_S + begins_s, min(NOW_S + ends_s, now_s)):
            used[uid % 2, uid] += 100 * cpus * 2 ** (-(now_s - second - 0.5) / half_life_s)  # type: ignore[assignment]
    return dict(used)


LIVES = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(0, 40), st.integers(1, 60)).map(
        lambda life: (life[0], life[1], 30 * life[2], 30 * (life[2] + life[3]))
    ),
    max_size=8,
)


@given(LIVES, st.sampled_from((15, 30)), st.sampled_from((900, DAY_S)))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_what_is_measured_is_what_a_naive_recount_finds(
    lives: list[tuple[int, int, int, int]], looks_every_s: int, half_life_s: int
) -> None:
    measurer = Measurer(rules=UseRules(half_life_s, counts_memory=False))
    ends_s = NOW_S + 4 * MEASURED_EVERY_S
    for now_s in range(NOW_S, ends_s + 1, looks_every_s):
        measurer.look(seen(at_instant(lives, now_s)), now_s)
    # Ends and beginnings are at instants at which it is looked; the last measurement may be some minutes old.
    measured_at_s = max((one.measured_at_s for one in measurer.known), default=ends_s)
    expected = {owner: used for owner, used in recounted(lives, measured_at_s, half_life_s).items() if used >= 101}
    found = {one.owner: one.used_cpu_centi_s for one in measurer.known}
    assert found.keys() == expected.keys()
    for owner, used in expected.items():
        assert found[owner] == pytest.approx(used, rel=1e-5, abs=10)


@given(LIVES, st.integers(1, 40))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_seldom_or_often_the_same_is_measured(lives: list[tuple[int, int, int, int]], seldom: int) -> None:
    endless = [(uid, cpus, begins_s, 10**7) for uid, cpus, begins_s, _ in lives]
    often, rarely = Measurer(), Measurer()
    ends_s = NOW_S + 40 * MEASURED_EVERY_S
    for number, now_s in enumerate(range(NOW_S, ends_s + 1, MEASURED_EVERY_S)):
        pool = seen(at_instant(endless, now_s))
        often.look(pool, now_s)
        if number % seldom == 0 or now_s == ends_s:
            rarely.look(pool, now_s)
    assert often.used.keys() == rarely.used.keys()
    for uid, used in often.used.items():
        assert abs(rarely.used[uid] - used) <= 50 + math.ceil(used * 1e-6)
