"""What VMs take from hosts: CPU, memory, PCI devices, and pinned threads."""

from __future__ import annotations

import numpy as np

from one_preempt.simulation.simulated_cloud import pinning
from one_preempt.simulation.simulated_cloud.objects import SimHost, SimVm, TemplateDict, Vector
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of

_ADDRESS_PARTS = ("ADDRESS", "BUS", "DOMAIN", "FUNCTION", "NUMA_NODE", "SHORT_ADDRESS", "SLOT")
_PCI_NAMES = ("VENDOR", "DEVICE", "CLASS")


def cpu_of(vm: SimVm) -> int:
    """Hundredths of a CPU: the attribute times 100 in single precision, cut."""
    return int(np.float32(text_of(vm.template, "CPU", "0")) * np.float32(100))


def memory_kib_of(vm: SimVm) -> int:
    """Memory in KiB."""
    return int(text_of(vm.template, "MEMORY", "0")) * 1024


def misfit(host: SimHost, vm: SimVm) -> str:
    """Why the VM does not fit, in oned's words, or an empty string."""
    share = host.share
    free_cpu, free_memory = share.max_cpu - share.cpu_usage, share.max_mem - share.mem_usage
    if cpu_of(vm) > free_cpu:
        return f"Not enough CPU: {cpu_of(vm)}/{free_cpu}"
    if memory_kib_of(vm) > free_memory:
        return f"Not enough memory: {memory_kib_of(vm)}/{free_memory}"
    if _assignment(host, vm) is None:
        return "Unavailable PCI device."
    if not pinning.fits(host, vm):
        return "Cannot allocate NUMA topology"
    return ""


def charge(host: SimHost, vm: SimVm) -> None:
    """Let the VM hold its capacity. Devices and threads that are not free are left out, as oned does when it was
    told not to check."""
    if vm.id in host.vm_ids:
        return
    host.vm_ids = sorted([*host.vm_ids, vm.id])
    share = host.share
    share.cpu_usage += cpu_of(vm)
    share.mem_usage += memory_kib_of(vm)
    share.running_vms += 1
    for request, device in _assignment(host, vm) or ():
        device["VMID"] = str(vm.id)
        request.update({part: device[part] for part in _ADDRESS_PARTS if part in device})
    pinning.pin(host, vm)


def release(host: SimHost, vm: SimVm) -> None:
    """Give back what `charge` took; nothing happens where the VM holds nothing."""
    if vm.id not in host.vm_ids:
        return
    host.vm_ids.remove(vm.id)
    share = host.share
    share.cpu_usage -= cpu_of(vm)
    share.mem_usage -= memory_kib_of(vm)
    share.running_vms -= 1
    for device in share.pci_devices:
        if device.get("VMID") == str(vm.id):
            device["VMID"] = "-1"
    pinning.unpin(host, vm)


def _assignment(host: SimHost, vm: SimVm) -> list[tuple[Vector, Vector]] | None:
    """Requests and the free devices they would get, those by address first; None where one gets none."""
    free = [device for device in host.share.pci_devices if device.get("VMID", "-1") == "-1"]
    requests = vectors_of(vm.template, "PCI")
    pairs: list[tuple[Vector, Vector]] = []
    for request in sorted(requests, key=lambda request: not _is_by_address(request)):
        device = next((device for device in free if _suits(request, device)), None)
        if device is None:
            return None
        free = [other for other in free if other is not device]
        pairs.append((request, device))
    return pairs


def _is_by_address(request: Vector) -> bool:
    return bool(request.get("SHORT_ADDRESS")) and not any(request.get(name) for name in _PCI_NAMES)


def _suits(request: Vector, device: Vector) -> bool:
    if _is_by_address(request):
        return device.get("SHORT_ADDRESS") == request["SHORT_ADDRESS"]
    named = [name for name in _PCI_NAMES if request.get(name)]
    return bool(named) and all(_hexadecimal(request[name]) == _hexadecimal(device.get(name, "")) for name in named)


def _hexadecimal(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return -1


def set_capacity(host: SimHost, cluster_template: TemplateDict) -> None:
    """What a successful monitoring makes of the machine: TOTAL, and MAX = TOTAL less what is reserved."""
    share = host.share
    share.total_cpu, share.total_mem = host.physical_cpu, host.physical_memory_kib
    host.template["TOTALCPU"] = [str(host.physical_cpu)]
    host.template["TOTALMEMORY"] = [str(host.physical_memory_kib)]
    share.max_cpu = _less_reserved(share.total_cpu, _reserved(host, cluster_template, "RESERVED_CPU"))
    share.max_mem = _less_reserved(share.total_mem, _reserved(host, cluster_template, "RESERVED_MEM"))


def wipe_capacity(host: SimHost) -> None:
    """What OFFLINE does: all totals zero, the attributes gone; usage stays."""
    share = host.share
    share.total_cpu = share.total_mem = share.max_cpu = share.max_mem = 0
    for name in ("TOTALCPU", "TOTALMEMORY", "FREECPU", "FREEMEMORY", "USEDCPU", "USEDMEMORY"):
        host.template.pop(name, None)


def _reserved(host: SimHost, cluster_template: TemplateDict, name: str) -> str:
    return text_of(host.template, name) or text_of(cluster_template, name)


def _less_reserved(total: int, reserved: str) -> int:
    if not reserved:
        return total
    if reserved.endswith("%"):
        return round(total * (1 - float(reserved[:-1]) / 100))
    return total - int(float(reserved))
