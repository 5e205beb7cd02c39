"""NUMA topology: pinned threads, memory and huge pages of host nodes, as oned counts them.

oned tests each guest node by itself against the host's nodes, and then gives out threads and memory guest node
by guest node. Both are followed here, so that a VM is kept from exactly those hosts that oned would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd

from msgspec import Struct, field

from one_preempt.core.model.host import KIB_PER_MIB, Host, NumaCore, NumaNode
from one_preempt.core.model.virtual_machine import NumaNodeRequest, Topology, VirtualMachine

# What oned writes for the VM of a thread that is kept for the host itself.
RESERVED_THREAD = -2
_FREE = -1


class _Core(Struct, frozen=True):
    """One core: the VMs on each of its threads that are not reserved for the host itself."""

    threads: tuple[tuple[int, ...], ...]
    dedicated: bool

    def free(self, vms_per_thread: int) -> int:
        """How many more virtual CPUs its threads take."""
        return 0 if self.dedicated else max(0, len(self.threads) * vms_per_thread - self.used)

    @property
    def used(self) -> int:
        return 1 if self.dedicated else sum(map(len, self.threads))


class _Node(Struct, frozen=True):
    """What is left of one host node: memory in KiB, free huge pages by their size in KiB.

    Rooms share it, and put another one in its place. `counted` are the groups of its cores that were asked for.
    """

    id: int
    cores: tuple[_Core, ...]
    memory_kib: int
    pages: Mapping[int, int]
    distance: tuple[int, ...]
    counted: dict[tuple[int, bool], int] = field(default_factory=dict)

    def groups(self, threads: int, vms_per_thread: int, dedicated: bool) -> int:
        """How many groups of `threads` virtual CPUs its cores take; whole cores where they are dedicated."""
        known = self.counted.get((threads, dedicated))
        if known is None:
            if dedicated:
                known = sum(1 for core in self.cores if core.used == 0 and core.threads)
            else:
                known = sum(core.free(vms_per_thread) // threads for core in self.cores)
            self.counted[threads, dedicated] = known
        return known

    def holds(self, memory_kib: int, page_kib: int) -> bool:
        """Memory and, where `page_kib` is not 0, huge pages for so much."""
        if memory_kib > self.memory_kib:
            return False
        return not page_kib or 0 < self.pages.get(page_kib, 0) >= memory_kib // page_kib

    def without(self, memory_kib: int, page_kib: int) -> _Node:
        """The same with so much less memory, and fewer huge pages where `page_kib` is not 0; below 0 it is more."""
        pages = self.pages
        if page_kib and page_kib in pages:
            taken = memory_kib // page_kib if memory_kib >= 0 else -(-memory_kib // page_kib)
            pages = {**pages, page_kib: pages[page_kib] - taken}
        return _Node(self.id, self.cores, self.memory_kib - memory_kib, pages, self.distance, self.counted)

    def with_cores(self, cores: Iterable[_Core]) -> _Node:
        """The same with other cores."""
        return _Node(self.id, tuple(cores), self.memory_kib, self.pages, self.distance)


class _Asked(Struct, frozen=True):
    """The guest nodes of a VM that ask for something, and what decides for all of them: there may be thousands."""

    requests: Sequence[NumaNodeRequest]
    most_cpus: int
    most_memory_kib: int
    cpus: int
    cpus_divisor: int


class NumaRoom:
    """The NUMA nodes of one host while a decision is being made.

    Others may be expected there once VMs have left: which threads those will get, oned decides when they come. So no
    threads are kept for them: a VM fits beside them if they still do after it was given what oned would give it now.
    """

    def __init__(self, host: Host) -> None:
        self._vms_per_thread = host.vms_thread
        self._nodes = {node.id: _read(node) for node in sorted(host.numa_nodes, key=lambda node: node.id)}
        first = next(iter(host.numa_nodes), None)
        cores = sorted(first.cores, key=lambda core: core.id) if first else []
        self._threads_per_core = len({cpu for cpu, _ in cores[0].threads}) if cores else 1
        self._expected: tuple[VirtualMachine, ...] = ()
        self._leaving: tuple[VirtualMachine, ...] = ()
        # By the identity of the guest nodes, which are kept with it.
        self._asked: dict[int, tuple[Sequence[NumaNodeRequest], _Asked]] = {}

    def copy(self) -> NumaRoom:
        """The same room, to be changed by itself."""
        twin = object.__new__(NumaRoom)
        twin._vms_per_thread = self._vms_per_thread
        twin._threads_per_core = self._threads_per_core
        twin._nodes = self._nodes.copy()
        twin._expected, twin._leaving, twin._asked = self._expected, self._leaving, self._asked
        return twin

    def expect(self, vm: VirtualMachine, leaving: Iterable[VirtualMachine]) -> None:
        """Let nobody who comes before take what `vm` will need here once those that are `leaving` have left.

        Where it would not fit then anyway, nothing is kept for it.
        """
        before, known = self._leaving, {one.id for one in self._leaving}
        self._leaving = (*before, *(one for one in leaving if one.id not in known))
        if self._holds((*self._expected, vm)):
            self._expected = (*self._expected, vm)
        else:
            self._leaving = before

    def fits(self, vm: VirtualMachine) -> bool:
        """May oned put `vm` here, and would all who are expected still fit in after it?"""
        if not self._fits_now(vm):
            return False
        others = [one for one in self._expected if one.id != vm.id]
        if not others:
            return True
        after = self.copy()
        after.charge(vm)
        return after._holds(others)

    def _holds(self, coming: Iterable[VirtualMachine]) -> bool:
        """Do these find room, one after the other, once all have left who are leaving?"""
        then = self.copy()
        for vm in self._leaving:
            then.release(vm)
        for vm in coming:
            if not then._fits_now(vm):
                return False
            then.charge(vm)
        return True

    def _fits_now(self, vm: VirtualMachine) -> bool:
        topology = vm.topology
        if topology is None or not vm.numa_nodes:
            return True
        if _wants_one_node(topology):
            return self._one_node(vm, topology) is not None
        asked = self._asked_by(vm)
        return any(self._each_fits(asked, threads, topology) for threads in self._thread_counts(topology, asked))

    def _asked_by(self, vm: VirtualMachine) -> _Asked:
        """What the guest nodes of a VM ask for, added up once for all rooms that come of this one."""
        known = self._asked.get(id(vm.numa_nodes))
        if known is None:
            known = self._asked[id(vm.numa_nodes)] = vm.numa_nodes, _added_up(vm.numa_nodes)
        return known[1]

    def charge(self, vm: VirtualMachine) -> None:
        """Give `vm`, which fits, its threads, memory and pages; it is expected no more."""
        topology = vm.topology
        if topology is None or not vm.numa_nodes:
            return
        if self._expected:
            self._expected = tuple(one for one in self._expected if one.id != vm.id)
        if _wants_one_node(topology):
            node = self._one_node(vm, topology)
            if node is not None:
                self._nodes[node.id] = node.without(vm.memory_mib * KIB_PER_MIB, _page_kib(topology))
            return
        asked = self._asked_by(vm)
        for threads in self._thread_counts(topology, asked):
            if self._each_fits(asked, threads, topology):
                self._give(vm, asked, threads, topology)
                return

    def release(self, vm: VirtualMachine) -> None:
        """Take back what `vm` has here."""
        for node in self._nodes.values():
            if any(vm.id in residents for core in node.cores for residents in core.threads):
                self._nodes[node.id] = node.with_cores(_left_by(vm.id, core) for core in node.cores)
        page_kib = _page_kib(vm.topology) if vm.topology is not None else 0
        for request in vm.numa_nodes:
            node_of = None if request.memory_node_id is None else self._nodes.get(request.memory_node_id)
            if node_of is not None:
                self._nodes[node_of.id] = node_of.without(-request.memory_kib, page_kib)

    def _one_node(self, vm: VirtualMachine, topology: Topology) -> _Node | None:
        """The node that holds all of the VM's memory: the one asked for, else that with most huge pages free."""
        page_kib = _page_kib(topology)
        fitting = [node for node in self._nodes.values() if node.holds(vm.memory_mib * KIB_PER_MIB, page_kib)]
        if _names_a_node(topology):
            return next((node for node in fitting if node.id == topology.node_affinity), None)
        return max(fitting, key=lambda node: (node.pages[page_kib], -node.id), default=None)

    def _thread_counts(self, topology: Topology, asked: _Asked) -> Iterator[int]:
        """Threads for each core of the guest, best first: powers of two that divide the CPUs of every node."""
        if topology.pin_policy == "CORE":
            yield 1
            return
        most = min(topology.threads or self._threads_per_core, self._threads_per_core)
        # 0 where the host tells of a core without threads: then nothing is tried.
        threads = 1 << most.bit_length() >> 1
        while threads >= 1:
            if asked.cpus_divisor % threads == 0 and topology.threads in (0, threads):
                yield threads
            threads //= 2

    def _each_fits(self, asked: _Asked, threads: int, topology: Topology) -> bool:
        """oned's test: every guest node by itself finds threads on some node, and memory on some node.

        Where the largest amounts find room, so does every smaller one.
        """
        return not asked.requests or (
            bool(self._cpu_fits(asked.most_cpus, threads, topology, {}))
            and any(node.holds(asked.most_memory_kib, _page_kib(topology)) for node in self._nodes.values())
        )

    def _cpu_fits(self, cpus: int, threads: int, topology: Topology, given: dict[int, int]) -> list[tuple[int, int]]:
        """(free groups, id) of the nodes with threads for so many CPUs; `given`: CPUs promised by node id."""
        dedicated = topology.pin_policy == "CORE"
        found = []
        for node in self._nodes.values():
            groups = node.groups(threads, self._vms_per_thread, dedicated) - given.get(node.id, 0) // threads
            if groups * threads >= cpus:
                found.append((groups, node.id))
        return found

    def _give(self, vm: VirtualMachine, asked: _Asked, threads: int, topology: Topology) -> None:
        """Each guest node goes to the emptiest node with threads whose nearest node with memory is nearest."""
        if asked.cpus > threads * sum(groups for groups, _ in self._cpu_fits(0, threads, topology, {})):
            # One of them would find no threads, and then none is given any.
            return
        page_kib = _page_kib(topology)
        given: dict[int, int] = {}
        chosen: list[tuple[NumaNodeRequest, _Node, _Node]] = []
        for request in asked.requests:
            emptiest_first = sorted(self._cpu_fits(request.total_cpus, threads, topology, given), reverse=True)
            pairs = (
                (self._nodes[node_id], self._nodes[self._nodes[node_id].distance[hop]])
                for hop in range(len(self._nodes))
                for _, node_id in emptiest_first
                if hop < len(self._nodes[node_id].distance) and self._nodes[node_id].distance[hop] in self._nodes
            )
            pair = next(((cpus, memory) for cpus, memory in pairs if memory.holds(request.memory_kib, page_kib)), None)
            if pair is None:
                return
            given[pair[0].id] = given.get(pair[0].id, 0) + request.total_cpus
            chosen.append((request, *pair))
        cores = {node_id: list(self._nodes[node_id].cores) for node_id in given}
        for request, cpu_node, memory_node in chosen:
            self._pin(vm.id, request.total_cpus, cores[cpu_node.id], threads, topology.pin_policy == "CORE")
            self._nodes[memory_node.id] = self._nodes[memory_node.id].without(request.memory_kib, page_kib)
        for node_id, pinned in cores.items():
            self._nodes[node_id] = self._nodes[node_id].with_cores(pinned)

    def _pin(self, vm_id: int, cpus: int, cores: list[_Core], threads: int, dedicated: bool) -> None:
        """Put so many virtual CPUs of a VM on the first of these cores that take some."""
        for place, core in enumerate(cores):
            if not cpus:
                return
            if dedicated:
                if core.used == 0 and core.threads:
                    cores[place] = _Core(((*core.threads[0], vm_id), *core.threads[1:]), dedicated=True)
                    cpus -= 1
                continue
            share = min(cpus, core.free(self._vms_per_thread) // threads * threads)
            if share:
                cores[place] = self._with_one_more(core, vm_id, share)
                cpus -= cores[place].used - core.used

    def _with_one_more(self, core: _Core, vm_id: int, most: int) -> _Core:
        """The core with one virtual CPU of a VM more on each of its first threads that take one, on so many at most."""
        found: list[tuple[int, ...]] = []
        for residents in core.threads:
            takes = most > 0 and len(residents) < self._vms_per_thread
            found.append((*residents, vm_id) if takes else residents)
            most -= takes
        return _Core(tuple(found), core.dedicated)


def _wants_one_node(topology: Topology) -> bool:
    """All in one host node: the node is named, or huge pages are wanted without pinning."""
    pinned = topology.pin_policy in ("CORE", "THREAD", "SHARED")
    return _names_a_node(topology) or (bool(topology.hugepage_size_mib) and not pinned)


def _names_a_node(topology: Topology) -> bool:
    """-1 is no node for oned either."""
    return topology.node_affinity not in (None, -1)


def _page_kib(topology: Topology) -> int:
    return (topology.hugepage_size_mib or 0) * KIB_PER_MIB


def _added_up(guest_nodes: Sequence[NumaNodeRequest]) -> _Asked:
    requests = [request for request in guest_nodes if request.total_cpus > 0 and request.memory_kib > 0]
    cpus = [request.total_cpus for request in requests]
    most_memory_kib = max((request.memory_kib for request in requests), default=0)
    return _Asked(requests, max(cpus, default=0), most_memory_kib, sum(cpus), gcd(*cpus))


def _left_by(vm_id: int, core: _Core) -> _Core:
    """The core without a VM."""
    if not any(vm_id in residents for residents in core.threads):
        return core
    left = (tuple(other for other in residents if other != vm_id) for residents in core.threads)
    return _Core(tuple(left), dedicated=False)


def _read(node: NumaNode) -> _Node:
    return _Node(
        id=node.id,
        cores=tuple(_read_core(core) for core in sorted(node.cores, key=lambda core: core.id)),
        memory_kib=node.total_memory_kib - node.usage_memory_kib,
        pages={pages.size_kib: pages.pages - pages.usage_pages for pages in node.hugepages},
        distance=node.distance,
    )


def _read_core(core: NumaCore) -> _Core:
    residents: dict[int, list[int]] = {}
    for cpu, vm_id in core.threads:
        if vm_id != RESERVED_THREAD:
            on_thread = residents.setdefault(cpu, [])
            if vm_id != _FREE:
                on_thread.append(vm_id)
    return _Core(tuple(tuple(residents[cpu]) for cpu in sorted(residents)), core.dedicated)
