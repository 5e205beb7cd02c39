"""A clock that is set wrong, far ahead: nothing is ended for good before somebody could look at it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from one_preempt.adapters.clock import FixedClock, SystemClock
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.clock_leaps import DOUBTED_S, LEAP_S
from one_preempt.composition import open_store
from one_preempt.configuration.settings import parse_settings
from tests.hostile.front_row import front_row
from tests.stories.world import CYCLE_S

A_YEAR_S = 365 * 86_400
LEASE = 'LEASE=[TYPE="BE-SUSPENDABLE", DURATION="10:00:00"]'


class WrongClock(FixedClock, SystemClock):
    """It is `ahead_s` of the true time, to which it is set."""

    def __init__(self, now_s: int) -> None:
        FixedClock.__init__(self, now_s)
        SystemClock.__init__(self)
        self.ahead_s, self._true_s = 0, now_s

    def set(self, now_s: int) -> None:
        """The true time has gone on to this."""
        self._true_s = now_s
        super().set(now_s + self.ahead_s)

    def passed_s(self) -> float:
        """The true time."""
        return float(self._true_s)


def told(row: Any) -> str:
    return "\n".join(row.log)


@pytest.mark.parametrize("overrun", ["stop", "terminate"])
def test_a_year_that_has_not_passed_ends_no_lease(tmp_path: Path, overrun: str) -> None:
    with front_row(tmp_path, {"time": {"overrun": overrun}}, make_clock=WrongClock) as row:
        assert isinstance(row.clock, WrongClock)
        vm = row.submit("eva", more=LEASE)
        row.run(3)
        row.clock.ahead_s = A_YEAR_S
        row.run(4)
        assert row.is_running(vm), told(row)
        assert f"the clock leapt ahead by {A_YEAR_S} s: for 60 minutes nothing is stopped or ended" in told(row)
        row.clock.ahead_s = 0
        row.run(2)
        assert row.is_running(vm), told(row)


def test_what_was_done_is_not_forgotten_for_a_year_that_has_not_passed(tmp_path: Path) -> None:
    def lines() -> list[str]:
        with closing(open_store(parse_settings(f"store: {{url: 'sqlite:///{tmp_path}/leases.db'}}", "test"))) as store:
            return [action.id for action in store.actions()]

    with front_row(tmp_path, make_clock=WrongClock) as row:
        assert isinstance(row.clock, WrongClock)
        vm = row.submit("eva", more=LEASE)
        row.run(4)
        row.cloud.vm_action(row.caller("eva"), "terminate-hard", vm)
        row.run(4)
        before = lines()
        assert f"deploy/{vm}/0" in before
        row.clock.ahead_s = A_YEAR_S
        row.run(2)
        assert lines() == before
        row.cloud.advance(DOUBTED_S)
        row.run()
        assert lines() == []


def test_a_clock_that_stays_where_it_leapt_to_is_believed_later(tmp_path: Path) -> None:
    with front_row(tmp_path, {"time": {"overrun": "stop"}}, make_clock=WrongClock) as row:
        assert isinstance(row.clock, WrongClock)
        vm = row.submit("eva", more=LEASE)
        row.run(3)
        row.clock.ahead_s = A_YEAR_S
        row.run()
        row.cloud.advance(DOUBTED_S - 2 * CYCLE_S)
        row.run()
        assert row.is_running(vm), told(row)
        row.run(3)
        assert not row.is_running(vm)


@pytest.mark.parametrize("overrun", ["stop", "terminate"])
@pytest.mark.parametrize("ahead_s", [A_YEAR_S, -A_YEAR_S])
def test_a_clock_that_is_not_oneds_from_the_start_ends_no_lease_until_they_agree(
    tmp_path: Path, overrun: str, ahead_s: int
) -> None:
    with front_row(tmp_path, {"time": {"overrun": overrun}}, make_clock=WrongClock) as row:
        vm = row.submit("eva", more=LEASE)
        row.run(3)
        row.transport.ahead_s = ahead_s
        row.cloud.advance(11 * 3600)
        row.run(4)
        assert row.is_running(vm), told(row)
        word = "ahead of" if ahead_s > 0 else "behind"
        assert told(row).count(f"the clock of this machine is {A_YEAR_S} s {word} that of OpenNebula") == 1
        row.transport.ahead_s = None
        row.run(2)
        assert row.is_running(vm), "what is not dated says nothing"
        row.transport.ahead_s = LEAP_S - 1
        row.run(3)
        assert not row.is_running(vm), told(row)
        assert "agree again" in told(row)


@pytest.mark.parametrize("ahead_s", [None, 0])
def test_a_clock_that_is_behind_what_oned_has_written_down_is_told_at_the_start(
    tmp_path: Path, ahead_s: int | None
) -> None:
    """As on a machine that lost its time while it was off, which oned and the daemon share."""
    with front_row(tmp_path, make_clock=WrongClock) as row:
        assert isinstance(row.clock, WrongClock)
        row.transport.ahead_s = ahead_s
        row.submit("eva", more=LEASE)
        row.cloud.advance(LEAP_S)
        later = row.submit("eva", more=LEASE)
        row.clock.ahead_s = -A_YEAR_S
        row.run(3)
        assert (
            told(row).count(f"what OpenNebula wrote down of VM {later} is still to come, in {A_YEAR_S - CYCLE_S} s")
            == 1
        )


def test_where_oneds_clock_is_another_one_that_alone_is_told(tmp_path: Path) -> None:
    with front_row(tmp_path, make_clock=WrongClock) as row:
        assert isinstance(row.clock, WrongClock)
        row.submit("eva", more=LEASE)
        row.clock.ahead_s = row.transport.ahead_s = -A_YEAR_S
        row.run(2)
        assert "still to come" not in told(row)
        assert f"the clock of this machine is {A_YEAR_S} s behind that of OpenNebula" in told(row)


def test_nobody_leaves_for_a_start_by_a_clock_that_is_not_oneds(tmp_path: Path) -> None:
    with front_row(tmp_path, make_clock=WrongClock) as row:
        leases = [row.submit("eva", cpu="4", more='LEASE=[TYPE="BE-SUSPENDABLE"]') for _ in range(2)]
        row.run(3)
        row.transport.ahead_s = A_YEAR_S
        reserved = row.submit("lea", cpu="4", more='LEASE=[TYPE="DC-NON-PREEMPTABLE", START="+00:30:00"]')
        for _ in range(8):
            row.cloud.advance(300)
            row.run()
        assert all(map(row.is_running, leases)), told(row)
        row.transport.ahead_s = 0
        row.run(6)
        assert row.is_running(reserved), told(row)


def test_who_waits_for_others_to_leave_reads_that_the_clocks_do_not_agree(tmp_path: Path) -> None:
    with front_row(tmp_path, make_clock=WrongClock) as row:
        leases = [row.submit("eva", cpu="4", more='LEASE=[TYPE="BE-SUSPENDABLE"]') for _ in range(2)]
        row.run(3)
        row.transport.ahead_s = A_YEAR_S
        urgent = row.submit("lea", cpu="4", more='LEASE=[TYPE="DC-NON-PREEMPTABLE"]')
        plan = row.run(3).plan
        assert all(map(row.is_running, leases)), told(row)
        assert plan is not None
        assert [(refusal.lease_id, refusal.reason.code) for refusal in plan.refusals] == [(urgent, "clock")]
        (status,) = row.vm(urgent).user_template["LEASE_STATUS"]
        assert "clocks of the scheduler and of OpenNebula do not agree" in status
        row.transport.ahead_s = 0
        row.run(6)
        assert row.is_running(urgent), told(row)


def test_an_answer_is_dated_by_the_clock_of_oneds_machine(tmp_path: Path) -> None:
    with front_row(tmp_path) as row:
        transport = OnedTransport.another(row.transport)
        assert transport.clock_ahead_s() is None
        transport.call("one.system.version")
        ahead_s = transport.clock_ahead_s()
        assert ahead_s is not None
        assert abs(ahead_s) < LEAP_S
        transport._dated = ("Fri, 27 Nov 2026 03:00:00 UTC", 1_795_748_400.0 + 7200)
        assert transport.clock_ahead_s() == 7200
        transport._dated = ("yesterday", 1.0)
        assert transport.clock_ahead_s() is None


def test_time_that_passes_while_nobody_looks_is_no_leap(tmp_path: Path) -> None:
    with front_row(tmp_path, {"time": {"overrun": "stop"}}, make_clock=WrongClock) as row:
        vm = row.submit("eva", more=LEASE)
        row.run(3)
        row.cloud.advance(A_YEAR_S)
        row.run(2)
        assert not row.is_running(vm)
        assert "leapt" not in told(row)


def test_the_clock_of_the_machine_gains_what_it_is_set_ahead() -> None:
    clock = WrongClock(1_800_000_000)
    assert clock.gained_s() == 0
    clock.set(1_800_000_100)
    assert clock.gained_s() == 0
    clock.ahead_s = LEAP_S
    clock.set(1_800_000_115)
    assert clock.gained_s() == LEAP_S
    assert clock.gained_s() == 0
    clock.ahead_s = 0
    clock.set(1_800_000_130)
    assert clock.gained_s() == -LEAP_S
    assert abs(SystemClock().gained_s()) == 0
