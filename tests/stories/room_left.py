"""Room on the story's hosts, counted from oned's documents and with none of the scheduler's code.

Where this finds room there is room; it may miss some (it takes the first host that fits, and guests of one node).
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from tests.stories.world import World

_MONITORED = "2"


@dataclass
class Room:
    """What is left on one host."""

    host_id: int
    pinned: bool
    cpu: int
    memory_kib: int
    devices: int
    nodes: list[list[int]]  # of each NUMA node: idle cores, memory in KiB

    @classmethod
    def of(cls, host: ElementTree.Element) -> Room:
        def number(path: str) -> int:
            return int(host.findtext(path, "0"))

        return cls(
            number("ID"),
            host.findtext("TEMPLATE/PIN_POLICY") == "PINNED",
            number("HOST_SHARE/MAX_CPU") - number("HOST_SHARE/CPU_USAGE"),
            number("HOST_SHARE/MAX_MEM") - number("HOST_SHARE/MEM_USAGE"),
            sum(device.findtext("VMID") == "-1" for device in host.iterfind("HOST_SHARE/PCI_DEVICES/PCI")),
            [_node(node) for node in host.iterfind("HOST_SHARE/NUMA_NODES/NODE")],
        )

    def take(self, vm: ElementTree.Element) -> bool:
        """Take the room for the VM; False, and nothing taken, where it does not fit."""
        cpu, memory_kib = needs(vm)
        devices, cores = len(vm.findall("TEMPLATE/PCI")), _cores(vm)
        if cpu > self.cpu or memory_kib > self.memory_kib or devices > self.devices or bool(cores) != self.pinned:
            return False
        if cores:
            node = next((node for node in self.nodes if node[0] >= cores and node[1] >= memory_kib), None)
            if node is None:
                return False
            node[0] -= cores
            node[1] -= memory_kib
        self.cpu -= cpu
        self.memory_kib -= memory_kib
        self.devices -= devices
        return True


def rooms(world: World) -> list[Room]:
    """What is left on the monitored hosts."""
    pool = ElementTree.fromstring(world.emulator.must("root", "one.hostpool.info"))
    return [Room.of(host) for host in pool if host.findtext("STATE") == _MONITORED]


def needs(vm: ElementTree.Element) -> tuple[int, int]:
    """Hundredths of a CPU, and memory in KiB."""
    return int(float(vm.findtext("TEMPLATE/CPU", "0")) * 100), int(vm.findtext("TEMPLATE/MEMORY", "0")) * 1024


def _node(node: ElementTree.Element) -> list[int]:
    idle = sum(
        all(thread.endswith(":-1") for thread in core.findtext("CPUS", "").split(",")) for core in node.iterfind("CORE")
    )
    return [idle, int(node.findtext("MEMORY/TOTAL", "0")) - int(node.findtext("MEMORY/USAGE", "0"))]


def _cores(vm: ElementTree.Element) -> int:
    """Idle cores that are enough for a pinned VM, 0 for others."""
    pinned = vm.findtext("TEMPLATE/TOPOLOGY/PIN_POLICY", "NONE") != "NONE"
    return int(vm.findtext("TEMPLATE/VCPU", "1")) if pinned else 0
