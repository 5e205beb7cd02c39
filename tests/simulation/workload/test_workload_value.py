from __future__ import annotations

import pytest

from one_preempt.core.model.lease import LeaseType
from one_preempt.simulation.workload.workload import (
    LATEST_S,
    LONGEST_S,
    MOST_SUSPENSIONS,
    MachineSet,
    StartKind,
    Workload,
    WorkloadRequest,
)

ONE_VM = (MachineSet(1, 100, 1024),)


def test_requests_stand_in_the_order_of_submission_and_id() -> None:
    requests = tuple(WorkloadRequest(id, at, ONE_VM, 60, 60) for id, at in ((3, 5), (1, 9), (2, 5)))
    assert [request.id for request in Workload(requests).requests] == [2, 3, 1]


def test_two_requests_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="same id"):
        Workload((WorkloadRequest(1, 0, ONE_VM, 60, 60), WorkloadRequest(1, 5, ONE_VM, 60, 60)))


def test_a_request_counts_its_vms_over_all_sets_and_its_work() -> None:
    request = WorkloadRequest(1, 0, (MachineSet(2, 100, 512), MachineSet(3, 200, 1024)), 60, 50)
    assert request.virtual_machines == 5
    assert request.work_vm_s == 250
    assert Workload((request,)).work_vm_s == 250


@pytest.mark.parametrize(
    ("requested_s", "actual_s", "planned_s"), [(60, 50, 60), (60, 70, 60), (None, 70, 70), (None, 0, 1)]
)
def test_one_plans_with_what_the_user_says_else_with_the_truth(
    requested_s: int | None, actual_s: int, planned_s: int
) -> None:
    assert WorkloadRequest(1, 0, ONE_VM, requested_s, actual_s).planned_duration_s == planned_s


@pytest.mark.parametrize(
    ("start", "start_at_s", "deadline_at_s", "ready_at_s"),
    [
        (StartKind.BEST_EFFORT, None, None, 10),
        (StartKind.IMMEDIATE, None, None, 10),
        (StartKind.EXACT, 50, None, 50),
        (StartKind.DEADLINE, None, 99, 10),
        (StartKind.DEADLINE, 50, 99, 50),
    ],
)
def test_each_kind_of_start_says_when_the_lease_is_ready(
    start: StartKind, start_at_s: int | None, deadline_at_s: int | None, ready_at_s: int
) -> None:
    request = WorkloadRequest(1, 10, ONE_VM, 5, 5, start, start_at_s, deadline_at_s)
    assert request.ready_at_s == ready_at_s


@pytest.mark.parametrize(
    ("start", "start_at_s", "deadline_at_s", "words"),
    [
        (StartKind.BEST_EFFORT, 50, None, "takes no time"),
        (StartKind.IMMEDIATE, 50, None, "takes no time"),
        (StartKind.EXACT, None, None, "needs its time"),
        (StartKind.EXACT, 50, 99, "do not go together"),
        (StartKind.DEADLINE, None, None, "do not go together"),
        (StartKind.BEST_EFFORT, None, 99, "do not go together"),
        (StartKind.EXACT, 9, None, "before its submission"),
        (StartKind.DEADLINE, 50, 50, "not after"),
        (StartKind.EXACT, LATEST_S + 1, None, f"start {LATEST_S + 1} s: {LATEST_S} s after the start .* is the latest"),
        (StartKind.DEADLINE, None, LATEST_S + 1, "deadline .* is the latest"),
    ],
)
def test_starts_that_contradict_themselves_are_refused(
    start: StartKind, start_at_s: int | None, deadline_at_s: int | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        WorkloadRequest(1, 10, ONE_VM, 5, 5, start, start_at_s, deadline_at_s)


def test_amounts_and_times_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="no VM"):
        WorkloadRequest(1, 0, (), 5, 5)
    for nothing in (MachineSet(1, 0, 1024), MachineSet(1, 100, 0)):
        with pytest.raises(ValueError, match="a VM without CPU or memory"):
            WorkloadRequest(1, 0, (*ONE_VM, nothing), 5, 5)
    with pytest.raises(ValueError, match="at least 0"):
        WorkloadRequest(1, -1, ONE_VM, 5, 5)
    with pytest.raises(ValueError, match="at least 1 s"):
        WorkloadRequest(1, 0, ONE_VM, 0, 5)
    with pytest.raises(ValueError, match="0 machines"):
        MachineSet(0, 100, 1024)
    with pytest.raises(ValueError, match="not negative"):
        MachineSet(1, 100, -1)


def test_each_step_is_written_into_the_provenance() -> None:
    workload = Workload((WorkloadRequest(1, 0, ONE_VM, 5, 5),), provenance=("drawn",))
    changed = workload.after("emptied", ())
    assert changed.provenance == ("drawn", "emptied")
    assert len(changed) == 0
    assert changed.span_s == 0


def test_only_a_non_preemptable_lease_is_never_a_victim() -> None:
    spared = [type for type in LeaseType if not WorkloadRequest(1, 0, ONE_VM, 5, 5, lease_type=type).preemptable]
    assert spared == [LeaseType.DC_NON_PREEMPTABLE]


def test_a_request_has_no_more_vms_than_a_lease_and_lasts_no_longer() -> None:
    half = MachineSet(5001, 100, 1024)
    with pytest.raises(ValueError, match="10002 VMs"):
        WorkloadRequest(1, 0, (half, half), 60, 60)
    with pytest.raises(ValueError, match="315360001 s"):
        WorkloadRequest(1, 0, (MachineSet(1, 100, 1024),), 315_360_001, 60)


def test_what_a_lease_cannot_ask_for_is_refused() -> None:
    with pytest.raises(ValueError, match=f"{MOST_SUSPENSIONS + 1} suspensions at most: 0 to {MOST_SUSPENSIONS} can"):
        WorkloadRequest(1, 0, ONE_VM, 5, 5, max_suspensions=MOST_SUSPENSIONS + 1)
    with pytest.raises(ValueError, match=f"a deadline for {LONGEST_S + 1} s of work"):
        WorkloadRequest(1, 0, ONE_VM, None, LONGEST_S + 1, StartKind.DEADLINE, deadline_at_s=LATEST_S)
