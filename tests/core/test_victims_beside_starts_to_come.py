"""Whoever ends before others need his room leaves for nobody: victims beside STARTs to come, against all choices."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from tests import scenario_reader

_STARTS_FROM, _WANTED = 50, 100
_SETTINGS: dict[str, Any] = {
    **scenario_reader.USUAL_SETTINGS,
    "overhead": {"boot_s": 0, "shutdown_s": 0, "reschedule_s": 0, "suspend_mib_per_s": 64, "resume_mib_per_s": 64},
    "time": {"preparation_margin_s": 0},
    "limits": {"minimum_run_time_s": 0},
    "victims": {"methods": {"BE-SUSPENDABLE": ["stop"]}},
}


def _drawn(chance: random.Random) -> dict[str, Any]:
    """One host full of leases of half a CPU, some with an end, STARTs to come, and a request that does not fit."""
    cpu = chance.choice((2, 3))
    vms: dict[int, dict[str, Any]] = {}
    for number in range(1, 2 * cpu + 1):
        lease: dict[str, Any] = {"TYPE": "BE-SUSPENDABLE"}
        if chance.random() < 0.7:
            lease["DURATION_S"] = 1000 + chance.choice((300, 600, 900, 1200))
        memory = chance.choice((256, 512, 1024))
        vms[number] = {"user": "eva", "host": 0, "cpu": 0.5, "memory": memory, "running_for_s": 1000, "lease": lease}
    for number in range(chance.choice((1, 2))):
        begins_s, takes = chance.choice((400, 700, 1000)), chance.choice((0.5, 1))
        lease = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": begins_s, "DURATION_S": 600}
        vms[_STARTS_FROM + number] = {"user": "lea", "state": "HOLD", "cpu": takes, "memory": 128, "lease": lease}
    wanted: dict[str, Any] = {"TYPE": "DC-NON-PREEMPTABLE", "DURATION_S": chance.choice((500, 2000))}
    vms[_WANTED] = {"user": "lea", "cpu": chance.choice((0.5, 1)), "memory": 128, "lease": wanted}
    starts = [number for number in vms if _STARTS_FROM <= number < _WANTED]
    booked = {one: vms[one]["lease"]["START_IN_S"] for one in starts}
    return {
        "settings": _SETTINGS,
        "policy": "MOV",
        "hosts": {0: {"cpu": cpu, "memory": 1 << 20}},
        "vms": vms,
        "ledger": {
            "leases": {one: {"verdict": "accepted"} for one in starts},
            "reservations": {
                one: [{"start_in_s": at_s, "end_in_s": at_s + 600, "hosts": [0], "firm": True}]
                for one, at_s in booked.items()
            },
        },
    }


def _fits_without(document: dict[str, Any], gone: frozenset[int]) -> bool:
    """The request has room for all of its stay, second by second where anything changes, once these have left."""
    vms, capacity = document["vms"], document["hosts"][0]["cpu"]
    stays = {
        number: (
            start_s := vm["lease"].get("START_IN_S", 0),
            start_s + vm["lease"].get("DURATION_S", 1 << 30),
            vm["cpu"],
        )
        for number, vm in vms.items()
        if number not in gone
    }
    for number in stays:
        if number < _STARTS_FROM:
            stays[number] = 0, stays[number][1] - vms[number]["running_for_s"], stays[number][2]
    until_s = stays[_WANTED][1]
    instants = [start_s for start_s, _, _ in stays.values() if start_s < until_s]
    return all(sum(cpu for a, b, cpu in stays.values() if a <= at_s < b) <= capacity for at_s in instants)


@pytest.mark.parametrize("seed", range(12))
def test_nobody_leaves_in_vain_beside_starts_to_come(seed: int) -> None:
    document = _drawn(random.Random(f"beside starts to come {seed}"))
    decided = scenario_reader.play(document)
    assert decided.violations == ()
    running = [number for number in document["vms"] if number < _STARTS_FROM]
    enough = [
        frozenset(some)
        for count in range(len(running) + 1)
        for some in combinations(running, count)
        if _fits_without(document, frozenset(some))
    ]

    def price(some: frozenset[int]) -> int:
        return sum(document["vms"][number]["memory"] for number in some)

    chosen = [frozenset(one.victim_lease_ids) for one in decided.plan.preemptions]
    assert len(chosen) == bool(enough)
    for victims in chosen:
        assert victims in enough
        assert price(victims) == min(map(price, enough))
