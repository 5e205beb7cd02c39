"""What was said about time, held against what the daemon has done; both read from outside, the ledger and the log."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from tests.stories.group_rules import DAEMON, DEPLOY
from tests.stories.world import World

LEASES = """
    SELECT leases.*, group_concat(lease_members.vm_id) AS members
    FROM leases JOIN lease_members ON lease_members.lease_id = leases.id GROUP BY leases.id
"""
SUSPENDED = """
    SELECT lease_id, max_suspensions, COUNT(DISTINCT preemption_id) AS times
    FROM actions JOIN leases ON leases.id = actions.lease_id
    WHERE preemption_id IS NOT NULL AND kind IN ('stop', 'undeploy') AND succeeded = 1
        AND max_suspensions IS NOT NULL AND duration_s IS NOT NULL AND served_s < duration_s
    GROUP BY lease_id
"""
WAITS = ("1/0", "2/0")


def rows(world: World, query: str) -> list[dict[str, Any]]:
    """Of the daemon's ledger."""
    with closing(sqlite3.connect(f"file:{world.ledger}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def started_against_a_word(world: World, calls: list[dict[str, Any]]) -> list[str]:
    """Deploys of the daemon among `calls` before a START that it accepted, or of what it refused."""
    deploys = {call["arguments"][0]: call for call in calls if _deploys(call)}
    if not deploys:
        return []
    wrong = []
    for lease in rows(world, LEASES):
        for vm_id in deploys.keys() & members(lease):
            at_s, start_at_s = deploys[vm_id]["at_s"], lease["start_at_s"] or 0
            if lease["verdict"] == "accepted" and at_s < start_at_s:
                wrong.append(f"VM {vm_id} was started at {at_s}, its START is {start_at_s}")
            if lease["verdict"] == "refused":
                wrong.append(f"VM {vm_id} was refused and yet started: {lease['verdict_text']}")
    return wrong


def late_without_a_word(world: World, calls: list[dict[str, Any]], now_s: int) -> list[str]:
    """Reservations that were accepted, are due, were never started, and do not tell why."""
    deployed = {call["arguments"][0] for call in calls if call["method"] == DEPLOY and not call["code"]}
    states = world.states()
    wrong = []
    for lease in rows(world, LEASES):
        due = lease["verdict"] == "accepted" and lease["deadline_at_s"] is None and not lease["at_once"]
        vm_ids = members(lease)
        waits = all(states[vm_id] in WAITS for vm_id in vm_ids) and lease["ended_at_s"] is None
        if not due or not waits or deployed & vm_ids or lease["start_at_s"] > now_s:
            continue
        texts = [text for vm_id in vm_ids if (text := _told(world, vm_id)) is not None]
        if texts and not all(text.startswith(("late: ", "waits until ")) for text in texts):
            wrong.append(f"lease {lease['id']} was to start at {lease['start_at_s']}, and only says {texts}")
    return wrong


def suspended_too_often(world: World) -> list[str]:
    """Leases that were suspended for others more often than they allow."""
    return [f"suspended too often: {row}" for row in rows(world, SUSPENDED) if row["times"] > row["max_suspensions"]]


def members(lease: dict[str, Any]) -> set[int]:
    """The VMs of a row of `LEASES`."""
    return {int(vm_id) for vm_id in lease["members"].split(",")}


def _told(world: World, vm_id: int) -> str | None:
    """What LEASE_STATUS says; None where nobody can write it."""
    vm = world.vm(vm_id)
    return None if vm.find("LOCK") is not None else vm.findtext("USER_TEMPLATE/LEASE_STATUS", "")


def _deploys(call: dict[str, Any]) -> bool:
    return bool(call["user"] == DAEMON and call["method"] == DEPLOY and not call["code"])
