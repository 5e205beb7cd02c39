"""Saving and restoring take fractions of seconds, and the scheduler counts whole ones: no promise is broken by that.

Long leases with deadlines are sent out again and again for short requests, until they have no time to spare.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from one_preempt.configuration.settings import OverheadSettings, Settings, TimeSettings
from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.experiments.trial import Trial, play_whole
from one_preempt.simulation.probes.outcome import Outcome, outcomes
from one_preempt.simulation.simulated_cloud.durations import INSTANT
from one_preempt.simulation.simulator.result import Fate
from one_preempt.simulation.simulator.site import Site, simulation_settings
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest

HOSTS, REQUESTS, MEMORY_MIB = 3, 120, 1024
ONE = (MachineSet(1, 100, MEMORY_MIB),)
UNTOUCHED, MOVABLE = LeaseType.DC_NON_PREEMPTABLE, LeaseType.DC_MIGRATABLE


def drawn(seed: int) -> Workload:
    """Requests of one VM each, most of them short and for now."""
    chance, at_s, found = Random(seed), 0, []
    for number in range(1, REQUESTS + 1):
        at_s += chance.randint(1, 90)
        kind = chance.random()
        if kind < 0.12:
            duration_s = chance.choice((900, 1500, 3000))
            deadline_at_s = at_s + int(duration_s * chance.uniform(1.1, 2))
            asked = replace(
                _request(number, at_s, duration_s, MOVABLE, external=True),
                start=StartKind.DEADLINE,
                deadline_at_s=deadline_at_s,
            )
        elif kind < 0.22:
            duration_s, lease_type = chance.choice((30, 90, 600)), chance.choice((MOVABLE, UNTOUCHED))
            start_at_s = at_s + chance.choice((60, 300, 900))
            asked = _request(number, at_s, duration_s, lease_type)
            asked = replace(asked, start=StartKind.EXACT, start_at_s=start_at_s)
        elif kind < 0.27:
            duration_s = chance.choice((60, 300))
            lease_type = chance.choice((LeaseType.BE_SUSPENDABLE, LeaseType.BE_CANCELLABLE))
            asked = _request(number, at_s, duration_s, lease_type, external=True)
        else:
            duration_s = chance.choice((10, 30, 60))
            asked = replace(_request(number, at_s, duration_s, UNTOUCHED), start=StartKind.IMMEDIATE)
        found.append(asked)
    return Workload(tuple(found))


def _request(
    number: int, at_s: int, duration_s: int, lease_type: LeaseType, *, external: bool = False
) -> WorkloadRequest:
    return WorkloadRequest(number, at_s, ONE, duration_s, duration_s, lease_type=lease_type, external=external)


def played(requests: Workload, hosts: int, save_s: float, restore_s: float, backfilling: str) -> list[Outcome]:
    """What became of all of them; the scheduler knows the rates of the storage."""
    rates = MEMORY_MIB / save_s, MEMORY_MIB / restore_s
    site = Site(
        (MachineSet(hosts, 100, MEMORY_MIB),),
        durations=replace(INSTANT, save_mib_per_s=rates[0], restore_mib_per_s=rates[1]),
    )
    done = play_whole(Trial(requests, site, _settings(rates, backfilling), "moml"))
    assert done.figures.refused_plans == 0
    return list(outcomes(requests, done.result))


def _settings(rates: tuple[float, float], backfilling: str) -> Settings:
    overhead = OverheadSettings(
        suspend_mib_per_s=rates[0], resume_mib_per_s=rates[1], pause_s=0, reschedule_s=0, boot_s=0, shutdown_s=0,
        learn=False,
    )  # fmt: skip
    time = TimeSettings(
        backfilling=backfilling, exclusion="host", least_run_before_suspension_s=1, preparation_margin_s=0,
        overrun_grace_s=0,
    )  # fmt: skip
    return msgspec.structs.replace(simulation_settings(), overhead=overhead, time=time)


def late_ms(one: Outcome) -> int:
    """By how much it missed what it was promised."""
    if one.request.deadline_at_s is not None:
        return (one.record.ended_at_ms or 0) - 1000 * one.request.deadline_at_s
    return (one.record.started_at_ms or 0) - 1000 * (one.request.start_at_s or 0)


@pytest.mark.parametrize(
    ("seed", "save_s", "restore_s", "backfilling"),
    [
        (9, 1.065, 14.931, "easy"),
        (20, 0.741, 11.6, "conservative"),
        (22, 0.836, 1.478, "easy"),
        (24, 4.026, 12.778, "easy"),
        (40, 1.7, 10.235, "easy"),
        (43, 4.787, 5.9, "conservative"),
    ],
)
def test_who_was_promised_a_deadline_is_done_by_then(
    seed: int, save_s: float, restore_s: float, backfilling: str
) -> None:
    promised = [
        one
        for one in played(drawn(seed), HOSTS, save_s, restore_s, backfilling)
        if one.fate is not Fate.REJECTED and one.request.start is StartKind.DEADLINE
    ]
    assert len(promised) >= 2
    assert {one.request.id: late_ms(one) for one in promised if late_ms(one) > 0} == {}


def test_what_begins_within_a_second_is_over_before_what_was_promised_after_it() -> None:
    """The first lease ends 0.35 s into a second: the next would take its 100 s into the first of what is promised."""
    requests = Workload((
        _request(1, 0, 100, LeaseType.BE_SUSPENDABLE, external=True),
        replace(_request(2, 0, 50, UNTOUCHED), start=StartKind.EXACT, start_at_s=226),
        replace(_request(3, 10, 20, UNTOUCHED), start=StartKind.IMMEDIATE),
        _request(4, 20, 100, UNTOUCHED, external=True),
    ))  # fmt: skip
    by_id = {one.request.id: one for one in played(requests, 1, 0.5, 5.85, "easy")}
    assert (by_id[1].record.ended_at_ms or 0) % 1000 > 0
    assert by_id[2].fate is not Fate.REJECTED
    assert late_ms(by_id[2]) == 0
