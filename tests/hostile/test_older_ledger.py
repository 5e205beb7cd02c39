"""The database of the leases is restored from a backup: what was done since is read off what oned itself tells."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from one_preempt.composition import open_cycle
from one_preempt.simulation.simulated_cloud.states import VmState
from tests.hostile.front_row import FrontRow, chosen_settings, front_row

SUSPENDABLE = 'LEASE=[TYPE="BE-SUSPENDABLE"]'
IN_PLACE = {"victims": {"suspend_in_place": True, "methods": {"BE-SUSPENDABLE": ["suspend", "stop"]}}}


def backed_up(folder: Path) -> Path:
    """A folder with the database as it is now."""
    older = folder / "older"
    older.mkdir()
    with closing(sqlite3.connect(folder / "leases.db")) as now, closing(sqlite3.connect(older / "leases.db")) as copy:
        now.backup(copy)
    return older


@contextmanager
def restored(row: FrontRow, older: Path, settings: dict[str, Any] | None = None) -> Iterator[None]:
    """Another daemon goes on, with the database in this folder."""
    row.cloud.advance(600)
    with open_cycle(chosen_settings(older, settings), row.clock, row.transport) as row.cycle:
        yield


def preempted(row: FrontRow) -> tuple[list[int], Path, int]:
    """Four leases on all hosts, the database as it is then, and the request that two of them left for."""
    leases = [row.submit("eva", cpu="2", more=SUSPENDABLE) for _ in range(4)]
    row.run(8)
    older = backed_up(row.folder)
    request = row.submit("lea", cpu="2")
    return leases, older, request


@pytest.mark.parametrize("cycles", [2, 8], ids=["a moment ago", "before"])
def test_who_was_sent_out_since_the_backup_comes_back(tmp_path: Path, cycles: int) -> None:
    with front_row(tmp_path) as row:
        leases, older, request = preempted(row)
        row.run(cycles)
        (victim,) = [vm for vm in leases if not row.is_running(vm)]
        with restored(row, older):
            row.run(4)
            assert row.is_running(request), row.log
            assert "preempted by lease" in str(row.vm(victim).user_template["LEASE_STATUS"])
            row.cloud.vm_action(row.caller("lea"), "terminate-hard", request)
            row.run(6)
            assert row.is_running(victim), row.log


def test_a_victim_in_place_is_unlocked_and_comes_back(tmp_path: Path) -> None:
    with front_row(tmp_path, IN_PLACE) as row:
        leases, older, request = preempted(row)
        row.run(8)
        (victim,) = [vm for vm in leases if row.vm(vm).state == VmState.SUSPENDED]
        with restored(row, older, IN_PLACE):
            row.run(4)
            row.cloud.vm_action(row.caller("lea"), "terminate-hard", request)
            row.run(6)
            assert row.is_running(victim), row.log
            assert row.vm(victim).lock is None


@pytest.mark.parametrize("user", ["eva", "root"])
def test_who_was_stopped_by_a_person_stays_so(tmp_path: Path, user: str) -> None:
    """Whatever its owner writes into LEASE_STATUS, where he stopped it himself; and what he does not, where an
    administrator did."""
    with front_row(tmp_path) as row:
        vm = row.submit("eva", more=SUSPENDABLE)
        row.run(8)
        older = backed_up(tmp_path)
        row.cloud.vm_action(row.caller(user), "stop", vm)
        if user == "eva":
            row.cloud.vm_update(row.caller(user), vm, 'LEASE_STATUS="preempted by lease 7; returns"', 1)
        row.cloud.advance(60)
        with restored(row, older):
            row.run(6)
            assert row.vm(vm).state == VmState.STOPPED, row.log
