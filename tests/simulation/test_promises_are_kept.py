"""Drawn workloads with everything in them, on storage that is slow: whoever was promised a time has it.

Deadlines to the second. A START may be late by the time in which one VM is saved: where those who were counted on to
leave would do so at once, others may be chosen in the end.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Literal

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

HOSTS, REQUESTS = 8, 60
MEMORY_MIB, SAVE_S, RESTORE_S = 1024, 60, 90
# Fractions of seconds add up to one.
WITHIN_S = 1
SITE = Site(
    (MachineSet(HOSTS, 100, 2 * MEMORY_MIB),),
    durations=replace(INSTANT, save_mib_per_s=MEMORY_MIB / SAVE_S, restore_mib_per_s=MEMORY_MIB / RESTORE_S),
)
BEST_EFFORT = (LeaseType.BE_SUSPENDABLE, LeaseType.BE_CANCELLABLE)
DEADLINE = (LeaseType.DC_MIGRATABLE, LeaseType.DC_NON_PREEMPTABLE)


def drawn(seed: int, *, alike: bool) -> Workload:
    """Best effort, deadlines, reservations and requests for now; VMs of one size, or of two."""
    chance, at_s, found = Random(seed), 0, []
    for number in range(1, REQUESTS + 1):
        at_s += chance.randint(0, 400)
        duration_s = chance.choice((60, 300, 900, 1800, 3600, 7200))
        memory_mib = MEMORY_MIB if alike else chance.choice((MEMORY_MIB // 2, MEMORY_MIB))
        vms = (MachineSet(chance.randint(1, HOSTS // 2), 100, memory_mib),)
        asked, kind = WorkloadRequest(number, at_s, vms, duration_s, duration_s), chance.random()
        if kind < 0.35:
            asked = replace(asked, lease_type=chance.choice(BEST_EFFORT), external=True)
        elif kind < 0.6:
            deadline_at_s = at_s + 600 + int(duration_s * chance.uniform(1.2, 4))
            asked = replace(
                asked,
                lease_type=chance.choice(DEADLINE),
                external=True,
                start=StartKind.DEADLINE,
                deadline_at_s=deadline_at_s,
            )
        elif kind < 0.8:
            start_at_s = at_s + chance.choice((300, 1200, 3600, 9000))
            asked = replace(asked, lease_type=chance.choice(DEADLINE), start=StartKind.EXACT, start_at_s=start_at_s)
        else:
            asked = replace(asked, lease_type=LeaseType.DC_NON_PREEMPTABLE, start=StartKind.IMMEDIATE)
        found.append(asked)
    return Workload(tuple(found))


def settings(backfilling: str, exclusion: Literal["host", "none"]) -> Settings:
    """The rates are those of the storage."""
    overhead = OverheadSettings(
        suspend_mib_per_s=MEMORY_MIB / SAVE_S, resume_mib_per_s=MEMORY_MIB / RESTORE_S, pause_s=0, reschedule_s=0,
        boot_s=0, shutdown_s=0, learn=False,
    )  # fmt: skip
    time = TimeSettings(
        backfilling=backfilling, exclusion=exclusion, least_run_before_suspension_s=1, preparation_margin_s=0,
        overrun_grace_s=0,
    )  # fmt: skip
    return msgspec.structs.replace(simulation_settings(), overhead=overhead, time=time)


def late_s(one: Outcome) -> float:
    """By how much it missed what it was promised."""
    if one.request.deadline_at_s is not None:
        return (one.record.ended_at_ms or 0) / 1000 - one.request.deadline_at_s
    return (one.record.started_at_ms or 0) / 1000 - (one.request.start_at_s or 0)


@pytest.mark.parametrize(
    ("seed", "alike", "backfilling", "exclusion"),
    [
        (seed, alike, *how)
        for seed, alike in ((3, False), (6, True), (16, True), (26, True), (29, True))
        for how in product(("easy", "conservative"), ("host", "none"))
    ],
)
def test_who_was_promised_a_time_has_it(
    seed: int, alike: bool, backfilling: str, exclusion: Literal["host", "none"]
) -> None:
    requests = drawn(seed, alike=alike)
    played = play_whole(Trial(requests, SITE, settings(backfilling, exclusion), "moml"))
    assert played.figures.refused_plans == 0
    promised = [
        one
        for one in outcomes(requests, played.result)
        if one.fate is not Fate.REJECTED and one.request.start in (StartKind.EXACT, StartKind.DEADLINE)
    ]
    assert len(promised) >= 5
    bound_s = {StartKind.DEADLINE: WITHIN_S, StartKind.EXACT: WITHIN_S + SAVE_S}
    missed = {one.request.id: late_s(one) for one in promised if late_s(one) > bound_s[one.request.start]}
    assert not missed
