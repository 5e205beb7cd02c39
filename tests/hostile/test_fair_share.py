"""A queue by what owners have used, over the whole way to oned: users who try, clocks that leap, databases that die."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from one_preempt.adapters.lease_store.sql_lease_store import SqlLeaseStore
from one_preempt.core.model.owner_use import OwnerUse
from one_preempt.core.owner_use.measuring import MEASURED_EVERY_S
from tests.hostile.front_row import FrontRow, front_row
from tests.hostile.test_clock_leaps import A_YEAR_S, WrongClock
from tests.stories.world import CYCLE_S

FAIR: dict[str, Any] = {"queue_order": "fair-share", "leases": {}}
ONE_HOST = [{"name": "node{}", "count": 1, "cpu": 1, "memory_mib": 16384}]
CYCLES_A_MEASUREMENT = MEASURED_EVERY_S // CYCLE_S + 1


def use_of(folder: Path) -> dict[str, OwnerUse]:
    """What stands in the database, by the names of the users."""
    with closing(SqlLeaseStore(f"sqlite:///{folder}/leases.db")) as store:
        return {one.user_name: one for one in store.load(0).owner_use}


def hours(folder: Path) -> dict[str, float]:
    return {name: one.used_cpu_centi_s / 360_000 for name, one in use_of(folder).items()}


def ends(row: FrontRow, vm_id: int) -> None:
    row.cloud.vm_action(row.caller("root"), "terminate-hard", vm_id)


def after_paul_has_used_an_hour(row: FrontRow) -> None:
    vm = row.submit("paul")
    row.run(3600 // CYCLE_S)
    ends(row, vm)
    row.run(CYCLES_A_MEASUREMENT)


def test_whoever_has_used_less_gets_the_room_that_comes_free(tmp_path: Path) -> None:
    with front_row(tmp_path, FAIR, ONE_HOST) as row:
        after_paul_has_used_an_hour(row)
        assert hours(tmp_path) == {"paul": pytest.approx(1.0, rel=0.05)}
        first = row.submit("evan")
        row.run(2)
        later, mine = row.submit("paul"), row.submit("lea")
        ends(row, first)
        row.run(3)
        assert row.is_running(mine)
        assert not row.is_running(later)


@pytest.mark.parametrize(
    "words",
    [
        'GNAME="locals"\nGID="0"\nUID="0"',
        'LEASE=[TYPE="DC-NON-PREEMPTABLE"]',
        'LEASE=[TYPE="DC-NON-PREEMPTABLE", DURATION="00:00:01"]',
        'FAIR_SHARE="1000"\nSHARE="1000"\nUSED_CPU_CENTI_S="0"',
    ],
)
def test_nothing_that_a_user_writes_brings_him_before_one_who_has_used_less(tmp_path: Path, words: str) -> None:
    with front_row(tmp_path, FAIR, ONE_HOST) as row:
        after_paul_has_used_an_hour(row)
        first = row.submit("evan")
        row.run(2)
        pushing, modest = row.submit("paul", more=words), row.submit("lea")
        ends(row, first)
        row.run(3)
        assert row.is_running(modest)
        assert not row.is_running(pushing)


def test_by_priority_nothing_is_measured_or_written(tmp_path: Path) -> None:
    with front_row(tmp_path, {"leases": {}}, ONE_HOST) as row:
        after_paul_has_used_an_hour(row)
        report = row.run()
        assert report.state is not None
        assert report.state.occupants is None
    assert use_of(tmp_path) == {}


def test_short_vms_are_no_way_to_use_nothing(tmp_path: Path) -> None:
    with front_row(tmp_path, FAIR, ONE_HOST) as row:
        row.submit("evan", cpu="0.1")
        for _ in range(CYCLES_A_MEASUREMENT):
            vm = row.submit("paul", cpu="0.9")
            row.run(2)
            ends(row, vm)
            row.run(2)
        row.run(CYCLES_A_MEASUREMENT)
        used = use_of(tmp_path)["paul"].used_cpu_centi_s
    # He had the host in one or two intervals out of four, all that time.
    intervals = used / 90 / CYCLE_S
    assert CYCLES_A_MEASUREMENT <= intervals <= 3 * CYCLES_A_MEASUREMENT


def test_a_year_that_has_not_passed_fades_nothing(tmp_path: Path) -> None:
    with front_row(tmp_path, FAIR, ONE_HOST, make_clock=WrongClock) as row:
        assert isinstance(row.clock, WrongClock)
        after_paul_has_used_an_hour(row)
        running = row.submit("lea")
        row.run(CYCLES_A_MEASUREMENT)
        before = hours(tmp_path)
        row.clock.ahead_s = A_YEAR_S
        row.run(3)
        ends(row, running)
        row.submit("eva")
        row.run(3)
        assert hours(tmp_path) == before
        row.clock.ahead_s = 0
        row.run(2 * CYCLES_A_MEASUREMENT)
        after = hours(tmp_path)
    assert after["paul"] == pytest.approx(before["paul"], rel=0.01)
    assert after["lea"] == pytest.approx(before["lea"], abs=0.1)
    assert 0 < after["eva"] < 0.3


def test_while_oned_is_silent_what_runs_goes_on_being_counted(tmp_path: Path) -> None:
    with front_row(tmp_path, FAIR, ONE_HOST) as row:
        row.submit("lea")
        row.run(CYCLES_A_MEASUREMENT)
        before = hours(tmp_path)["lea"]
        with row.lock:
            row.cloud.advance(86_400)
        row.run(CYCLES_A_MEASUREMENT)
        assert hours(tmp_path)["lea"] - before == pytest.approx(24, rel=0.06)


def _chown(row: FrontRow, vm: int) -> None:
    row.cloud.vm_chown(row.caller("root"), vm, row.caller("eva").uid, row.caller("eva").gid)


def _delete(row: FrontRow, vm: int) -> None:
    ends(row, vm)
    row.run()
    del row.cloud.users[row.caller("paul").uid]


@pytest.mark.parametrize("happens", [_chown, _delete])
def test_what_was_used_stays_with_whoever_used_it(tmp_path: Path, happens: Callable[[FrontRow, int], None]) -> None:
    with front_row(tmp_path, FAIR, ONE_HOST) as row:
        vm = row.submit("paul")
        row.run(3600 // CYCLE_S)
        happens(row, vm)
        row.run(2 * CYCLES_A_MEASUREMENT)
        found = use_of(tmp_path)
    assert found["paul"].used_cpu_centi_s == pytest.approx(360_000, rel=0.05)
    assert found["paul"].group_name == "plain"
    if happens is _chown:
        assert found["eva"].used_cpu_centi_s == pytest.approx(200 * MEASURED_EVERY_S, rel=0.35)
