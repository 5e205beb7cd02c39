"""A request of a workload as its owner brings it to the cloud: VMs whose templates have a LEASE attribute."""

from __future__ import annotations

from one_preempt.core.model.written_time import duration_text, utc_text
from one_preempt.errors import OnePreemptError
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.errors import OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller, TemplateDict, Vector
from one_preempt.simulation.simulated_cloud.states import DatastoreType
from one_preempt.simulation.workload.workload import MachineSet, StartKind, WorkloadRequest

AT_ONCE = "now"


class UnusableRequest(OnePreemptError):
    """A cloud does not take VMs as the request asks for them; the message says which request and why."""


def submit(cloud: SimulatedCloud, owner: Caller, request: WorkloadRequest, origin_s: int) -> tuple[int, ...]:
    """Create the VMs of `request`, on HOLD as those with a lease wait; their ids. `origin_s` is instant 0.

    Raises `UnusableRequest`.
    """
    lease = _lease_attribute(request, origin_s)
    vm_ids: list[int] = []
    try:
        for machines in request.vm_sets:
            template = _template(machines, lease)
            if request.image and cloud.image_link is not None:
                template["DISK"] = [{"IMAGE_ID": str(_image_id(cloud, request.image, request.image_mib))}]
            vm_ids += cloud.add_vms(owner, template, machines.count, hold=True)
    except OnedError as error:
        raise UnusableRequest(f"request {request.id} of the workload: {error}") from error
    return tuple(vm_ids)


def _image_id(cloud: SimulatedCloud, name: str, size_mib: int) -> int:
    """The image of a request; the first time that one asks for it, it is there since ever."""
    known = next((image for image in cloud.images.values() if (image.name, image.size_mib) == (name, size_mib)), None)
    if known is None:
        store_id = next(store.id for store in cloud.datastores.values() if store.type == DatastoreType.IMAGE)
        known = cloud.add_image(name, store_id, size_mib)
    return known.id


def _template(machines: MachineSet, lease: Vector) -> TemplateDict:
    return {"CPU": [f"{machines.cpu_centi / 100:g}"], "MEMORY": [str(machines.memory_mib)], "LEASE": [lease]}


def _lease_attribute(request: WorkloadRequest, origin_s: int) -> Vector:
    terms = {"TYPE": request.lease_type.value, "NAME": f"r{request.id}", "SIZE": str(request.virtual_machines)}
    if request.requested_duration_s is not None:
        terms["DURATION"] = duration_text(request.requested_duration_s)
    elif request.start is StartKind.DEADLINE:
        terms["DURATION"] = duration_text(request.planned_duration_s)
    if request.start is StartKind.IMMEDIATE:
        terms["START"] = AT_ONCE
    elif request.start_at_s is not None:
        terms["START"] = utc_text(origin_s + request.start_at_s)
    if request.deadline_at_s is not None:
        terms["DEADLINE"] = utc_text(origin_s + request.deadline_at_s)
    if request.max_suspensions is not None:
        terms["MAX_SUSPENSIONS"] = str(request.max_suspensions)
    return terms
