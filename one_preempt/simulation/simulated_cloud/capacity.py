"""What VMs take from hosts: CPU, memory, PCI devices, and pinned threads."""

from __future__ import annotations

import math
from bisect import insort
from functools import lru_cache

import numpy as np

from one_preempt.simulation.simulated_cloud import devices, pinning
from one_preempt.simulation.simulated_cloud.objects import SimHost, SimVm, TemplateDict
from one_preempt.simulation.simulated_cloud.templates import text_of


def taken_as_asked(template: TemplateDict) -> tuple[int, int]:
    """Hundredths of a CPU, the attribute times 100 in single precision, cut; and KiB of memory."""
    return _taken_of(text_of(template, "CPU", "0"), text_of(template, "MEMORY", "0"))


@lru_cache(maxsize=1 << 12)
def _taken_of(cpu: str, memory: str) -> tuple[int, int]:
    return int(np.float32(cpu) * np.float32(100)), int(memory) * 1024


def cpu_of(vm: SimVm) -> int:
    """Hundredths of a CPU."""
    return vm.taken[0]


def memory_kib_of(vm: SimVm) -> int:
    """Memory in KiB."""
    return vm.taken[1]


def misfit(host: SimHost, vm: SimVm) -> str:
    """Why the VM does not fit, in oned's words, or an empty string."""
    share = host.share
    free_cpu, free_memory = share.max_cpu - share.cpu_usage, share.max_mem - share.mem_usage
    cpu, memory_kib = vm.taken
    if cpu > free_cpu:
        return f"Not enough CPU: {cpu}/{free_cpu}"
    if memory_kib > free_memory:
        return f"Not enough memory: {memory_kib}/{free_memory}"
    if not devices.are_free(host, vm):
        return "Unavailable PCI device."
    if "TOPOLOGY" in vm.template and not pinning.fits(host, vm):
        return "Cannot allocate NUMA topology"
    return ""


def charge(host: SimHost, vm: SimVm, series_7: bool = True) -> None:
    """Let the VM hold its capacity. Devices and threads that are not free are left out, as oned does when it was
    told not to check."""
    if vm.id in host.vm_ids:
        return
    hold(host, vm.id, vm.taken)
    if "PCI" in vm.template:
        devices.assign(host, vm, series_7)
    if "TOPOLOGY" in vm.template:
        pinning.pin(host, vm, series_7)


def hold(host: SimHost, vm_id: int, amounts: tuple[int, int]) -> None:
    """Let a VM that holds nothing there yet hold these amounts of CPU and memory, and nothing else."""
    insort(host.vm_ids, vm_id)
    share, (cpu, memory_kib) = host.share, amounts
    share.cpu_usage += cpu
    share.mem_usage += memory_kib
    share.running_vms += 1


def release(host: SimHost, vm: SimVm) -> None:
    """Give back what `charge` took; nothing happens where the VM holds nothing."""
    if vm.id not in host.vm_ids:
        return
    let_go(host, vm.id, vm.taken)
    if "PCI" in vm.template:
        devices.take_back(host, vm)
    if host.share.numa_nodes:
        pinning.unpin(host, vm)


def let_go(host: SimHost, vm_id: int, amounts: tuple[int, int]) -> None:
    """Give back what `hold` took."""
    host.vm_ids.remove(vm_id)
    share, (cpu, memory_kib) = host.share, amounts
    share.cpu_usage -= cpu
    share.mem_usage -= memory_kib
    share.running_vms -= 1


def set_capacity(host: SimHost, cluster_template: TemplateDict) -> None:
    """What a successful monitoring makes of the machine: TOTAL, and MAX = TOTAL less what is reserved."""
    share = host.share
    share.total_cpu, share.total_mem = host.physical_cpu, host.physical_memory_kib
    host.template["TOTALCPU"] = [str(host.physical_cpu)]
    host.template["TOTALMEMORY"] = [str(host.physical_memory_kib)]
    share.max_cpu = _less_reserved(share.total_cpu, _reserved(host, cluster_template, "RESERVED_CPU"))
    share.max_mem = _less_reserved(share.total_mem, _reserved(host, cluster_template, "RESERVED_MEM"))
    pinning.configure(host)


def wipe_capacity(host: SimHost) -> None:
    """What OFFLINE does: all totals zero, the attributes gone; usage stays."""
    share = host.share
    share.total_cpu = share.total_mem = share.max_cpu = share.max_mem = 0
    for name in ("TOTALCPU", "TOTALMEMORY", "FREECPU", "FREEMEMORY", "USEDCPU", "USEDMEMORY"):
        host.template.pop(name, None)


def _reserved(host: SimHost, cluster_template: TemplateDict, name: str) -> str:
    return text_of(host.template, name) or text_of(cluster_template, name)


def _less_reserved(total: int, reserved: str) -> int:
    try:
        amount = float(reserved.removesuffix("%"))
    except ValueError:
        return total
    if not math.isfinite(amount):
        return total
    return round(total * (1 - amount / 100)) if reserved.endswith("%") else total - int(amount)
