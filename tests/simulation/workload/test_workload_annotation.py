from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from one_preempt.core.model.lease import LeaseType
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.workload.annotate import (
    Image,
    deadline_constraint_only,
    external_only,
    with_deadlines,
    with_images,
    with_origins,
    with_suspension_limit,
    with_types,
)
from one_preempt.simulation.workload.workload import MachineSet, StartKind, Workload, WorkloadRequest

VM = (MachineSet(1, 100, 1024),)
JOBS = Workload(tuple(WorkloadRequest(id, 10 * id, VM, 100, 50) for id in range(3000)))
QUARTERS = tuple((lease_type, 0.25) for lease_type in LeaseType)


def local_ids(workload: Workload) -> set[int]:
    return {request.id for request in workload.requests if not request.external}


def test_exactly_so_many_requests_are_local_and_start_at_once_or_never() -> None:
    workload = with_origins(JOBS, 1000, seed=1)
    assert len(local_ids(workload)) == 1000
    for request in workload.requests:
        if request.external:
            assert (request.start, request.lease_type) == (StartKind.BEST_EFFORT, LeaseType.BE_SUSPENDABLE)
        else:
            assert (request.start, request.lease_type) == (StartKind.IMMEDIATE, LeaseType.DC_NON_PREEMPTABLE)


def test_a_growing_local_share_keeps_who_was_local() -> None:
    nested = [local_ids(with_origins(JOBS, local, seed=1)) for local in (0, 600, 1500, 3000)]
    assert all(smaller <= larger for smaller, larger in pairwise(nested))
    assert local_ids(with_origins(JOBS, 600, seed=2)) != nested[1]


def test_types_come_in_their_shares() -> None:
    shares = ((LeaseType.BE_CANCELLABLE, 0.5), (LeaseType.DC_MIGRATABLE, 0.0), (LeaseType.DC_NON_PREEMPTABLE, 0.5))
    counts = Counter(request.lease_type for request in with_types(JOBS, shares, seed=1).requests)
    assert set(counts) == {LeaseType.BE_CANCELLABLE, LeaseType.DC_NON_PREEMPTABLE}
    assert abs(counts[LeaseType.BE_CANCELLABLE] - 1500) < 3 * 27.4  # three standard deviations


def test_a_type_keeps_its_requests_when_its_share_grows() -> None:
    def cancellable(share: float) -> set[int]:
        shares = ((LeaseType.BE_CANCELLABLE, share), (LeaseType.DC_MIGRATABLE, 1 - share))
        drawn = with_types(JOBS, shares, seed=5).requests
        return {request.id for request in drawn if request.lease_type is LeaseType.BE_CANCELLABLE}

    assert cancellable(0.1) < cancellable(0.3) < cancellable(0.5)


@pytest.mark.parametrize("share", [0.4, 0.6, -0.5])
def test_shares_that_do_not_add_up_are_refused(share: float) -> None:
    with pytest.raises(OnePreemptError, match="do not add up to 1"):
        with_types(JOBS, ((LeaseType.BE_CANCELLABLE, share), (LeaseType.DC_MIGRATABLE, 0.5)), seed=1)


def test_deadline_constraint_requests_get_twice_their_duration() -> None:
    typed = with_origins(with_types(JOBS, QUARTERS, seed=5), 1000, seed=1)
    for request in with_deadlines(typed, 2, concerned=deadline_constraint_only).requests:
        if request.external and not request.lease_type.best_effort:
            assert (request.start, request.deadline_at_s) == (StartKind.DEADLINE, request.submitted_at_s + 200)
        else:
            assert request.deadline_at_s is None


def test_deadlines_count_from_the_start_where_there_is_one_and_are_rounded_up() -> None:
    reserved = Workload((WorkloadRequest(1, 0, VM, 7, 7, StartKind.EXACT, start_at_s=50),))
    request = with_deadlines(reserved, 1.5).requests[0]
    assert (request.start, request.start_at_s, request.deadline_at_s) == (StartKind.DEADLINE, 50, 61)


def test_one_seed_does_not_tie_images_to_types() -> None:
    images = tuple(Image(lease_type.value, 600, 0.25) for lease_type in LeaseType)
    drawn = with_images(with_types(JOBS, QUARTERS, seed=3), images, seed=3).requests
    alike = sum(request.image == request.lease_type for request in drawn)
    assert abs(alike - 750) < 3 * 23.7


def test_images_come_in_their_shares() -> None:
    images = [Image(f"often-{n}", 600, 0.1) for n in range(7)] + [Image(f"rare-{n}", 800, 0.01) for n in range(30)]
    drawn = with_images(JOBS, images, seed=3).requests
    often = sum(request.image.startswith("often") for request in drawn)
    assert abs(often - 2100) < 3 * 25.1
    assert {(request.image_mib, request.image[:4]) for request in drawn} == {(600, "ofte"), (800, "rare")}


def test_the_number_of_suspensions_is_limited_for_those_concerned() -> None:
    workload = with_suspension_limit(with_origins(JOBS, 1000, seed=1), 2, concerned=external_only)
    assert {(request.external, request.max_suspensions) for request in workload.requests} == {(True, 2), (False, None)}


def test_the_same_seed_gives_the_same_annotations_and_every_step_is_told() -> None:
    once, again = (with_types(with_origins(JOBS, 10, seed=1), QUARTERS, seed=2) for _ in range(2))
    assert once == again
    assert once.provenance == (
        "10 of 3000 requests are local (seed 1)",
        "types BE-CANCELLABLE 0.25, BE-SUSPENDABLE 0.25, DC-MIGRATABLE 0.25, DC-NON-PREEMPTABLE 0.25 (seed 2)",
    )


def test_annotations_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OnePreemptError, match="3001 local requests out of 3000"):
        with_origins(JOBS, 3001, seed=1)
    with pytest.raises(OnePreemptError, match="at least 1"):
        with_deadlines(JOBS, 0.5)
    with pytest.raises(OnePreemptError, match="at least 0"):
        with_suspension_limit(JOBS, -1)
