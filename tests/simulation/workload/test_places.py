"""What an empty site has room for, and what it can never run."""

from __future__ import annotations

from one_preempt.simulation.workload.places import can_never_run, places_for
from one_preempt.simulation.workload.workload import MachineSet, WorkloadRequest

HOSTS = (MachineSet(2, 200, 4096), MachineSet(1, 400, 1024))


def never_runs(*vm_sets: MachineSet) -> bool:
    return can_never_run(WorkloadRequest(1, 0, vm_sets, 60, 60), HOSTS)


def test_a_host_has_as_many_places_as_its_scarcest_amount_allows() -> None:
    assert places_for(MachineSet(1, 100, 512), HOSTS) == 2 * 2 + 2
    assert places_for(MachineSet(1, 300, 512), HOSTS) == 1
    assert places_for(MachineSet(1, 300, 2048), HOSTS) == 0


def test_what_is_larger_than_every_host_or_than_all_of_them_never_runs() -> None:
    assert never_runs(MachineSet(1, 300, 2048))
    assert never_runs(MachineSet(7, 100, 512))
    assert not never_runs(MachineSet(6, 100, 512))


def test_sets_that_fit_one_by_one_may_be_more_than_the_site_has_together() -> None:
    assert never_runs(MachineSet(1, 400, 512), MachineSet(5, 100, 512))
    assert not never_runs(MachineSet(1, 400, 512), MachineSet(4, 100, 512))
