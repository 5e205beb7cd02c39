"""TOPOLOGY and NUMA_NODE of a requested VM: what oned checks and completes when the VM is created."""

from __future__ import annotations

import re

from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import SimVm, TemplateDict, Vector
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of

_PINNED = ("CORE", "THREAD", "SHARED")
_DISTANCE = re.compile(r"[0-9]+(-[0-9]+)?:[0-9]+(,[0-9]+(-[0-9]+)?:[0-9]+)*")


def pin_policy(vm: SimVm) -> str:
    """CORE, THREAD or SHARED, or an empty string for VMs that are not pinned."""
    return _policy(topology_of(vm))


def topology_of(vm: SimVm) -> Vector:
    """The VM's TOPOLOGY, empty where it has none."""
    return next(iter(vectors_of(vm.template, "TOPOLOGY")), {})


def node_affinity(vm: SimVm) -> int | None:
    """The NUMA node that a VM without pinning asked to be near, None without such a wish."""
    return _number(topology_of(vm), "NODE_AFFINITY")


def page_size_kib(vm: SimVm) -> int:
    """The size of the huge pages that the VM asked for, 0 for none; the attribute is in MiB."""
    return (_number(topology_of(vm), "HUGEPAGE_SIZE") or 0) * 1024


def complete_topology(template: TemplateDict, series_7: bool) -> None:
    """Check and complete TOPOLOGY, and write the guest's NUMA nodes.

    A pinned VM gets a CPU a virtual CPU. Raises INTERNAL in oned's words for what does not add up.
    """
    if "TOPOLOGY" not in template and "NUMA_NODE" not in template:
        return
    topology = next(iter(vectors_of(template, "TOPOLOGY")), {})
    template["TOPOLOGY"] = [topology]
    if _number(topology, "NODE_AFFINITY") is None:
        topology.pop("NODE_AFFINITY", None)
    elif _policy(topology):
        raise _refused("NUMA node affinity cannot be set for pinned VMs")
    template.setdefault("VCPU", ["1"])
    if "VCPU_MAX" in template:
        raise _refused("VM with TOPOLOGY does not support CPU hotplug (VCPU_MAX)")
    if _policy(topology):
        template["CPU"] = [text_of(template, "VCPU")]
        _complete_pinned(template, topology, series_7)
    else:
        _complete_unpinned(template, topology)


def _complete_unpinned(template: TemplateDict, topology: Vector) -> None:
    vcpu = int(text_of(template, "VCPU"))
    counts = [_count(topology, name) for name in ("SOCKETS", "CORES", "THREADS")]
    if not any(counts):
        topology.update(SOCKETS="1", CORES=str(vcpu), THREADS="1")
    elif not all(counts):
        raise _refused("Non-pinned VMs with a virtual topology needs to set  SOCKETS, CORES and THREADS numbers.")
    elif counts[0] * counts[1] * counts[2] != vcpu:
        raise _refused("Total threads per core and socket needs to match VCPU")
    topology["PIN_POLICY"] = "NONE"
    template.pop("NUMA_NODE", None)
    if "NODE_AFFINITY" in topology or _count(topology, "HUGEPAGE_SIZE"):
        template["NUMA_NODE"] = [_guest_node(vcpu, int(text_of(template, "MEMORY")))]


def _complete_pinned(template: TemplateDict, topology: Vector, series_7: bool) -> None:
    vcpu, memory_mib = int(text_of(template, "VCPU")), int(text_of(template, "MEMORY"))
    named = vectors_of(template, "NUMA_NODE")
    sockets, cores, threads = (_count(topology, name) for name in ("SOCKETS", "CORES", "THREADS"))
    if sockets == 0:
        sockets = len(named) or 1
        topology["SOCKETS"] = str(sockets)
    if cores and threads and sockets * cores * threads != vcpu:
        raise _refused("Total threads per core and socket needs to match VCPU")
    if cores and not threads:
        if vcpu % (cores * sockets):
            raise _refused("VCPU is not multiple of the total number of cores")
        threads = vcpu // (cores * sockets)
        if threads & (threads - 1):
            raise _refused("Computed number of threads is not power of 2")
        topology["THREADS"] = str(threads)
    if named:
        template["NUMA_NODE"] = [*_named_nodes(named, vcpu, memory_mib, series_7)]
        return
    for what, amount in (("VCPU", vcpu), ("MEMORY", memory_mib)):
        if amount % sockets:
            raise _refused(f"{what} is not multiple of the number of NUMA nodes")
    template["NUMA_NODE"] = [_guest_node(vcpu // sockets, memory_mib // sockets) for _ in range(sockets)]


def _named_nodes(named: list[Vector], vcpu: int, memory_mib: int, series_7: bool) -> list[Vector]:
    """The guest nodes that the template names, their memory in KiB from now on."""
    nodes = []
    amounts = [(_count(node, "TOTAL_CPUS"), _count(node, "MEMORY")) for node in named]
    for node, (cpus, node_mib) in zip(named, amounts, strict=True):
        if series_7 and bool(cpus) != bool(node_mib):
            raise _refused("NUMA_NODE capacity cannot be MEMORY or CPU only")
        if not series_7 and cpus == 0:
            raise _refused("A NUMA_NODE must have TOTAL_CPUS greater than 0")
        if not series_7 and node_mib == 0:
            raise _refused(" A NUMA_NODE must have MEMORY greater than 0")
        distance = node.get("DISTANCE", "") if series_7 else ""
        if distance and not _DISTANCE.fullmatch(distance):
            raise _refused("A NUMA_NODE includes a syntax error for DISTANCE attribute")
        nodes.append(_guest_node(cpus, node_mib) | ({"DISTANCE": distance} if distance else {}))
    if sum(cpus for cpus, _ in amounts) != vcpu:
        raise _refused("Total CPUS of NUMA nodes is different from VM VCPU")
    if sum(node_mib for _, node_mib in amounts) != memory_mib:
        raise _refused("Total MEMORY of NUMA nodes is different from VM MEMORY")
    return nodes


def _guest_node(cpus: int, memory_mib: int) -> Vector:
    return {"TOTAL_CPUS": str(cpus), "MEMORY": str(memory_mib * 1024)}


def _policy(topology: Vector) -> str:
    policy = topology.get("PIN_POLICY", "").upper()
    return policy if policy in _PINNED else ""


def _count(vector: Vector, name: str) -> int:
    return max(_number(vector, name) or 0, 0)


def _number(vector: Vector, name: str) -> int | None:
    try:
        return int(vector[name])
    except (KeyError, ValueError):
        return None


def _refused(text: str) -> OnedError:
    return OnedError(ErrorCode.INTERNAL, text)
