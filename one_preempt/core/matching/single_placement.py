"""Where one VM goes: what suits it, what of that has room, and which is best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from one_preempt.core.matching import reasons
from one_preempt.core.matching.access import AccessRules, have_same_owners
from one_preempt.core.matching.datastores import DatastoreMatch, image_datastore_without_room
from one_preempt.core.matching.demands import NO_DEMAND
from one_preempt.core.matching.devices import assign_devices
from one_preempt.core.matching.emptied_cluster import emptied_snapshot, emptied_table
from one_preempt.core.matching.expressions.attributes import BoolArray
from one_preempt.core.matching.expressions.known_expressions import Expressions, NotThisCycle, UnreadableExpression
from one_preempt.core.matching.expressions.requirements import Residents
from one_preempt.core.matching.full_hosts import needs_of
from one_preempt.core.matching.gang import Trials
from one_preempt.core.matching.host_match import KINDS_KEPT, HostMatch, StaticHostMatch
from one_preempt.core.matching.networks import ChosenNetworks, NetworkMatch
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.preferences import Preferences
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.vm_groups import GroupRules, group_rules, is_unreadable
from one_preempt.core.model.cluster_state import HostTable, IntArray
from one_preempt.core.model.host import Host
from one_preempt.core.model.plan import Placement
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.virtual_machine import VirtualMachine

# A code of `reasons`, and the mask of the rows that pass.
_Test = tuple[str, BoolArray]


class SinglePlacement:
    """Matches VMs with the hosts, datastores and networks of one snapshot.

    `prematched`: what oned matched already, by VM id, where a driver document says so. `expressions` are those that
    another one has read: who has read an owner's texts once need not take the time again.
    """

    def __init__(
        self,
        snapshot: PoolSnapshot,
        hosts: HostTable,
        options: MatchOptions,
        prematched: Mapping[int, Prematch] | None = None,
        expressions: Expressions | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.hosts = hosts
        self.options = options
        self.expressions = Expressions() if expressions is None else expressions
        self.expressions.trials.begin_cycle()
        self._access = access = AccessRules(snapshot.directory, snapshot.zone_id) if options.check_access else None
        known = prematched or {}
        self.has_prematched = bool(known)
        self._host_match = StaticHostMatch(snapshot, hosts, access, self.expressions, known)
        self._datastores = DatastoreMatch(snapshot, access, self.expressions, options, known)
        self._networks = NetworkMatch(snapshot, access, self.expressions, options, known)
        self._preferences = Preferences(self._host_match, self.expressions, options.host_selection)

    def follow(self, snapshot: PoolSnapshot, hosts: HostTable, options: MatchOptions) -> bool:
        """Match the VMs of a later snapshot from now on, of which only datastores and hosts' state and load may be new.

        What was matched holds then, but for what speaks of what has changed. False where more is new: nothing was done.
        """
        known = self.snapshot
        same = (
            options is self.options
            and snapshot.networks is known.networks
            and snapshot.zone_id == known.zone_id
            and not self.has_prematched
            and have_same_owners(snapshot.directory, known.directory)
            # Users choose requirements and ranks: what is known of those long gone must not pile up.
            and self._host_match.kinds + self._preferences.kinds <= max(KINDS_KEPT, 4 * len(snapshot.vms))
        )
        if not same or not self._host_match.follow(snapshot, hosts):
            return False
        if snapshot.datastores is not known.datastores:
            # Which hosts suit a VM does not depend on what is stored where.
            self._datastores = DatastoreMatch(snapshot, self._access, self.expressions, options, {})
        self.snapshot, self.hosts = snapshot, hosts
        self.expressions.trials.begin_cycle()
        self._preferences.load_has_changed()
        return True

    @property
    def matched_at(self) -> object:
        """The same object as long as everything but the load of hosts is as it was."""
        return self._host_match.turned.at

    def new_room(self) -> Room:
        """All that is free, counted with these options."""
        return Room(self.snapshot, self.hosts, memory_system_ds_scale=self.options.memory_system_ds_scale)

    def served_room(self) -> Room:
        """The same with space on datastores, and addresses in networks, for everybody."""
        scale = self.options.memory_system_ds_scale
        return Room(self.snapshot, self.hosts, memory_system_ds_scale=scale, serves_all=True)

    def emptied_room(self) -> Room:
        """All that there would be if nobody had anything."""
        emptied = emptied_snapshot(self.snapshot)
        hosts = emptied_table(self.hosts, emptied)
        return Room(emptied, hosts, memory_system_ds_scale=self.options.memory_system_ds_scale)

    def match(self, vm: VirtualMachine) -> HostMatch:
        """The hosts that suit `vm` whatever is free on them."""
        return self._host_match.match(vm)

    def makes_disks_on(self, vm: VirtualMachine, host: Host) -> bool:
        """The disks of a new VM are made on the host itself, and not where all hosts have them."""
        return self._datastores.lies_on_host(vm, host)

    def suited_beside(self, vm: VirtualMachine, residents: Residents) -> BoolArray:
        """The hosts that would suit `vm` whatever is free on them if VMs were where `residents` has them."""
        return self._host_match.suited_beside(vm, residents)

    def preference(self, vm: VirtualMachine) -> IntArray:
        """All hosts' rows, best first: by the VM's SCHED_RANK, else by the host selection policy."""
        return self._preferences.order(vm.sched_rank, vm.uid)

    def rank_problem(self, vm: VirtualMachine) -> str:
        """Which of the VM's ranks cannot be read, as one sentence; "" where all can. Such a rank makes all equal."""
        ranks = [("SCHED_RANK", vm.sched_rank), ("SCHED_DS_RANK", vm.sched_datastore_rank)]
        ranks += [(f"SCHED_RANK of NIC {nic.id}", nic.sched_rank) for nic in vm.nics if nic.automatic]
        return next(
            (
                problem
                for name, text in ranks
                if text and (problem := self.expressions.rank_problem(name, text, uid=vm.uid))
            ),
            "",
        )

    def place(
        self,
        vm: VirtualMachine,
        room: Room,
        among: BoolArray | None = None,
        *,
        limited: bool = True,
        after_host_id: int | None = None,
    ) -> Placement | Unplaced:
        """Put one VM on the best host with room, of those `among` (a mask of rows) where it is given.

        `after_host_id`: a host that refused it a moment ago; those ranked behind it are tried first.
        Room for the VMs that a VM group ties to it is kept on its host. `limited` False leaves out MAX_DISPATCH,
        MAX_HOST and the waiting of VM groups for each other.
        """
        limit = self.options.max_dispatch
        if limited and 0 < limit <= len(room.placed):
            # Before anything else, so that the rest of a long queue costs next to nothing.
            return reasons.unplaced(reasons.DISPATCH_LIMIT, f"This cycle has started {limit} VMs, as many as it may.")
        rules = group_rules(vm, room)
        refusal = self._refusal(vm, room) or (_follows(rules) if limited else None)
        if refusal is not None:
            return refusal
        tests = self._tests_of_room(vm, room, among, rules, limited=limited)
        lacking: Counter[str] = Counter()
        nics: dict[int, ChosenNetworks] = {}
        for row in self._ordered(vm, self._passing(vm, tests), after_host_id):
            found = self._try_host(vm, row, room, nics)
            if isinstance(found, str):
                lacking[found] += 1
                continue
            room.take(found)
            for companion in rules.companions if rules and limited else ():
                room.hold(found.host_id, companion.resources)
            return found
        return reasons.no_host(self._counts(vm, tests, lacking), needs_of(vm))

    def too_small(self, vm: VirtualMachine, mask: BoolArray) -> int:
        """How many of the hosts of a mask of rows could not take the VM even when they are empty."""
        lacking = (self.hosts.capacity < (vm.cpu_centi, vm.memory_mib)).any(axis=1)
        return int(np.count_nonzero(lacking & mask))

    def candidates(
        self, vm: VirtualMachine, room: Room, among: BoolArray | None = None, trials: Trials | None = None
    ) -> Iterator[Placement]:
        """Every placement of `vm` that the room allows now, best first, while `trials` are left; nothing is charged.

        Whoever asks for the next one has taken back what was charged for the one before.
        """
        if self._refusal(vm, room) is not None:
            return
        trials = trials or Trials(room)
        hopeless, nics = trials.hopeless_for(vm), dict[int, ChosenNetworks]()
        tests = self._tests_of_room(vm, room, among, group_rules(vm, room), limited=False)
        for row in self._ordered(vm, self._passing(vm, tests)):
            if trials.left <= 0:
                return
            if row in hopeless:
                continue
            found = self._try_host(vm, row, room, nics)
            if isinstance(found, Placement):
                yield found
            else:
                trials.left -= 1
                if trials.is_untouched(row) and self._lacks(vm, self.hosts.hosts[row], room):
                    hopeless.add(row)

    def _refusal(self, vm: VirtualMachine, room: Room) -> Unplaced | None:
        """What keeps the VM from every host."""
        if is_unreadable(vm, room.snapshot):
            told = f"VM group {vm.vm_group_id} cannot be read: its owner has to mend it, or take the VM out of it."
            return reasons.unplaced(reasons.AFFINITY, told)
        match = self.match(vm)
        if match.refusal is not None:
            # What was found holds for many VMs: who is refused is named here.
            if not match.refusal.counts:
                return match.refusal
            return reasons.no_host(match.counts, f"VM {vm.id}", match.unknown_names)
        return self._unserved(vm, room)

    def _unserved(self, vm: VirtualMachine, room: Room) -> Unplaced | None:
        """What no host could give the VM of datastores and networks."""
        try:
            stores = self._datastores.candidates(vm)
            nics = [(nic, self._networks.candidates(vm, nic)) for nic in self._networks.open_nics(vm)]
        except UnreadableExpression as error:
            code = reasons.NEXT_CYCLE if isinstance(error, NotThisCycle) else reasons.UNREADABLE
            return reasons.unplaced(code, str(error))
        if not stores:
            return self._datastores.why_no_candidate(vm)
        for nic, networks in nics:
            if not networks:
                return self._networks.why_no_candidate(vm, nic)
        full_id = image_datastore_without_room(vm, room)
        if full_id is not None:
            text = f"Image datastore {full_id} has no room for its disks: delete images there, or choose another one."
            return reasons.unplaced(reasons.IMAGE_DATASTORE, text)
        return None

    def _tests_of_room(
        self,
        vm: VirtualMachine,
        room: Room,
        among: BoolArray | None,
        rules: GroupRules | None,
        *,
        limited: bool,
    ) -> list[_Test]:
        """What hosts that suit the VM must pass besides, in order: the code of each test, and the rows that pass it."""
        tests: list[_Test] = []
        if among is not None:
            tests.append((reasons.NOT_AMONG, among))
        if self.match(vm).follows_current_vms:
            tests.append((reasons.REQUIREMENTS, self._host_match.requirements_now(vm, room)))
        needed = vm.resources
        if rules is not None:
            tests.append((reasons.AFFINITY, rules.mask))
            # Several VMs placed together are all charged in turn; a VM alone must leave room for who follows.
            for companion in rules.companions if limited else ():
                tests.append((reasons.AFFINITY, self.match(companion).mask))
                needed += companion.resources
        tests.append((reasons.CAPACITY, room.hosts_for(needed.cpu_centi, needed.memory_mib)))
        if limited and self.options.max_host:
            tests.append((reasons.DISPATCH_LIMIT, room.dispatched < self.options.max_host))
        return tests

    def _passing(self, vm: VirtualMachine, tests: Sequence[_Test]) -> BoolArray:
        """The hosts that suit the VM and pass all these tests."""
        mask = self.match(vm).mask
        for _, passed in tests:
            mask = mask & passed
        return mask

    def _counts(self, vm: VirtualMachine, tests: Sequence[_Test], lacking: Mapping[str, int]) -> dict[str, int]:
        """How many hosts were ruled out by which test; those that passed these are `lacking` something else."""
        match = self.match(vm)
        mask, counts = match.mask, Counter(match.counts)
        for code, passed in tests:
            suited, mask = mask, mask & passed
            counts[code] += int(np.count_nonzero(suited)) - int(np.count_nonzero(mask))
            if code == reasons.CAPACITY and not mask.any():
                counts[reasons.TOO_SMALL] = self.too_small(vm, suited)
                counts[code] -= counts[reasons.TOO_SMALL]
        counts.update(lacking)
        return counts

    def _ordered(self, vm: VirtualMachine, mask: BoolArray, after_host_id: int | None = None) -> Iterator[int]:
        order = self.preference(vm)
        if after_host_id is not None and after_host_id in self.hosts.index_by_id:
            place = int(np.flatnonzero(order == self.hosts.index_by_id[after_host_id])[0])
            order = np.roll(order, -place - 1)
        yield from order[mask.take(order)].tolist()

    def _try_host(
        self, vm: VirtualMachine, row: int, room: Room, nics: dict[int, ChosenNetworks] | None = None
    ) -> Placement | str:
        """The placement on one host that has CPU and memory, or the code of what else is lacking there.

        `nics`: what was chosen on other hosts in the room as it is, by cluster; this host's is added.
        """
        host = self.snapshot.hosts[int(self.hosts.ids[row])]
        return self._lacks(vm, host, room) or self._served_by(vm, host, room, nics if nics is not None else {})

    def _served_by(
        self, vm: VirtualMachine, host: Host, room: Room, nics: dict[int, ChosenNetworks]
    ) -> Placement | str:
        """The placement on a host with a datastore and networks for it, whatever else is free; or what is lacking."""
        store = self._datastores.choose(vm, host, room)
        if store is None:
            return self._datastores.why_none(vm, host)
        networks = self._networks_on(vm, host, room, nics)
        return reasons.NETWORK if networks is None else Placement(vm.id, host.id, store.id, networks)

    def unserved_at(self, vms: Sequence[VirtualMachine], rows: Sequence[int], room: Room) -> Unplaced | None:
        """What VMs lack of datastores and networks, each on the host of its row, whatever else is free there.

        Nothing is charged. None where they lack nothing.
        """
        mark = room.checkpoint()
        lacking: Unplaced | None = None
        for vm, row in zip(vms, rows, strict=True):
            lacking = self._unserved(vm, room)
            found = self._served_by(vm, self.hosts.hosts[row], room, {}) if lacking is None else ""
            if isinstance(found, str):
                lacking = lacking or reasons.no_host({found: 1}, needs_of(vm))
                break
            room.reserve(found)
        room.rollback(mark)
        return lacking

    def _lacks(self, vm: VirtualMachine, host: Host, room: Room) -> str:
        """The code of what the host itself lacks beside CPU and memory: devices, NUMA room; "" where nothing."""
        if vm.pci_requests and assign_devices(vm.pci_requests, room.free_devices(host.id)) is None:
            return reasons.DEVICES
        if vm.topology is not None and not room.numa_room(host.id).fits(vm):
            return reasons.NUMA
        return ""

    def with_store_and_networks(self, vm: VirtualMachine, rows: Sequence[int], room: Room) -> list[int]:
        """Those of these rows on whose hosts a datastore has room for the VM now, and each NIC a network.

        Whatever else is free there. No row where what the VM wants of them cannot be read.
        """
        if not vm.nics and room.demand_of(vm) is NO_DEMAND:
            return list(rows)
        found: dict[int, bool] = {}
        nics: dict[int, ChosenNetworks] = {}

        def is_served(row: int) -> bool:
            host = self.hosts.hosts[row]
            place = host.cluster_id if by_cluster else row
            if place not in found:
                store = self._datastores.choose(vm, host, room)
                found[place] = store is not None and self._networks_on(vm, host, room, nics) is not None
            return found[place]

        by_cluster = self._datastores.are_all_shared(vm)
        return [row for row in rows if is_served(row)]

    def _networks_on(
        self, vm: VirtualMachine, host: Host, room: Room, nics: dict[int, ChosenNetworks]
    ) -> ChosenNetworks:
        """Chosen once a cluster: an owner may ask for hundreds of NICs."""
        if not vm.nics:
            return ()
        if host.cluster_id not in nics:
            nics[host.cluster_id] = self._networks.choose(vm, host, room)
        return nics[host.cluster_id]


def _follows(rules: GroupRules | None) -> Unplaced | None:
    """A VM that its VM group ties to another one waits until that one has a host."""
    if rules is None or rules.follows is None:
        return None
    return reasons.unplaced(reasons.AFFINITY, f"It goes to the host of VM {rules.follows}, once that has started.")
