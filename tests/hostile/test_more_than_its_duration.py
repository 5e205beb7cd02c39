"""Who has had his DURATION has had what he was promised: no room is kept for him, however often he resumes his VM, and
what others were promised behind him stays theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from one_preempt.core.model.written_time import utc_text
from tests.hostile.front_row import FrontRow, front_row

SETTINGS: dict[str, Any] = {"time": {"overrun": "stop", "overrun_grace_s": 0}}
ONE_HOST = [{"name": "node{}", "count": 1, "cpu": 4, "memory_mib": 16384}]
DEADLINE = 'LEASE=[TYPE="DC-MIGRATABLE", DURATION="00:02:00", DEADLINE="{}"]'
START = 'LEASE=[TYPE="DC-NON-PREEMPTABLE", DURATION="00:02:00", START="+00:01:00"]'
LATER = 'LEASE=[TYPE="DC-NON-PREEMPTABLE", DURATION="01:00:00", START="+00:05:00"]'


SHORT = {"TYPE": "BE-SUSPENDABLE", "DURATION": "00:10:00"}
BEHIND: dict[str, Any] = {
    "preemption": "advise",
    "time": {"overrun": "stop", "overrun_grace_s": 0},
    "leases": {
        "rules": [
            {
                "name": "short",
                "match": {"user": "evan", "attributes": {"QUEUE": "short"}},
                "type": "BE-SUSPENDABLE",
                "duration_s": 600,
            },
            {"name": "long", "match": {"user": "evan"}, "type": "BE-SUSPENDABLE", "duration_s": 36000},
        ],
        "rights": [
            {"name": "externals", "group": "externals", "may_claim": ["BE-SUSPENDABLE"]},
            {"name": "plain", "group": "plain", "max_ahead_s": 86400},
        ],
    },
}


def served(row: FrontRow, user: str, lease: str) -> int:
    """A VM that has run for its DURATION, and was stopped."""
    vm = row.submit(user, cpu="3", more=lease.format(utc_text(int(row.cloud.now_s) + 72_000)))
    for _ in range(12):
        row.run()
        if row.is_running(vm):
            break
    row.cloud.advance(150)
    row.run(3)
    assert not row.is_running(vm), row.log
    return vm


@pytest.mark.parametrize(("user", "lease"), [("eva", DEADLINE), ("lea", START)])
def test_no_room_is_kept_for_who_resumes_what_has_had_its_time(tmp_path: Path, user: str, lease: str) -> None:
    with front_row(tmp_path, SETTINGS, ONE_HOST) as row:
        vm = served(row, user, lease)
        row.cloud.vm_action(row.caller(user), "resume", vm)
        report = row.run(8)
        assert not row.is_running(vm), row.log
        assert report.state is not None
        assert report.state.reservations == {}, row.log
        other = row.submit("lea", cpu="4", more=LATER)
        row.run(2)
        assert "reserved" in row.vm(other).user_template["LEASE_STATUS"][0], row.log


def test_who_resumes_it_waits_in_the_queue_and_is_not_late(tmp_path: Path) -> None:
    with front_row(tmp_path, SETTINGS, ONE_HOST) as row:
        vm = served(row, "lea", START)
        row.submit("paul", cpu="4")
        row.run(2)
        row.cloud.vm_action(row.caller("lea"), "resume", vm)
        row.run(2)
        (status,) = row.vm(vm).user_template["LEASE_STATUS"]
        assert "does not fit" in status, status


@pytest.mark.parametrize(
    ("user", "written"),
    [
        ("eva", {**SHORT, "DURATION": "10:00:00"}),
        ("eva", {"TYPE": "BE-SUSPENDABLE"}),
        ("eva", None),
        ("evan", {**SHORT, "DURATION": "10:00:00"}),
        ("evan", None),
    ],
    ids=["longer", "endless", "taken out", "by rule before", "by another rule"],
)
def test_nobody_makes_his_duration_longer_than_until_a_start_that_was_accepted_behind_it(
    tmp_path: Path, user: str, written: dict[str, str] | None
) -> None:
    """Whoever was promised the room could make nobody leave for it: preempting is only advised."""
    with front_row(tmp_path, BEHIND, ONE_HOST) as row:
        short = 'LEASE=[TYPE="BE-SUSPENDABLE", DURATION="00:10:00"]'
        vm = row.submit(user, cpu="4", more=short if user == "eva" else 'QUEUE="short"')
        row.run(3)
        assert row.is_running(vm), row.log
        promised = row.submit("paul", cpu="4", more=LATER.replace("+00:05", "+00:20"))
        row.run(2)
        row.vm(vm).user_template.pop("LEASE" if user == "eva" else "QUEUE")
        if written is not None:
            row.vm(vm).user_template["LEASE"] = [written]
        row.run(2)
        assert "its hosts are promised to others then" in row.log[-1]
        assert "reserved" in row.vm(promised).user_template["LEASE_STATUS"][0], row.log


def test_until_that_start_it_may_become_longer(tmp_path: Path) -> None:
    with front_row(tmp_path, BEHIND, ONE_HOST) as row:
        vm = row.submit("eva", cpu="4", more='LEASE=[TYPE="BE-SUSPENDABLE", DURATION="00:10:00"]')
        row.run(3)
        promised = row.submit("paul", cpu="4", more=LATER.replace("+00:05", "+00:20"))
        row.run(2)
        row.vm(vm).user_template["LEASE"] = [{**SHORT, "DURATION": "00:18:00"}]
        row.run(2)
        assert "change-accepted" in row.log[-1], row.log
        assert "reserved" in row.vm(promised).user_template["LEASE_STATUS"][0], row.log


def test_beside_a_reservation_that_runs_it_may_become_longer(tmp_path: Path) -> None:
    """Whoever was promised a start has what was promised: nobody beside it is in its way."""
    with front_row(tmp_path, BEHIND, ONE_HOST) as row:
        reserved = row.submit("paul", cpu="2", more=LATER.replace("+00:05", "+00:01"))
        row.run(2)
        row.cloud.advance(90)
        vm = row.submit("eva", cpu="2", more='LEASE=[TYPE="BE-SUSPENDABLE", DURATION="00:10:00"]')
        row.run(4)
        assert row.is_running(reserved), row.log
        assert row.is_running(vm), row.log
        row.vm(vm).user_template["LEASE"] = [{**SHORT, "DURATION": "02:00:00"}]
        row.run(2)
        assert "change-accepted" in row.log[-1], row.log
