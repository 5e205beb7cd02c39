"""Which hosts suit a VM whatever is free: state, access, requirements, pinning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from one_preempt.core.matching import reasons
from one_preempt.core.matching.access import AccessRules
from one_preempt.core.matching.demands import moves
from one_preempt.core.matching.expressions.attributes import (
    HOST_LAYOUT,
    Attributes,
    AttributeTable,
    BoolArray,
    host_attributes,
)
from one_preempt.core.matching.expressions.known_expressions import (
    Expressions,
    NotThisCycle,
    TooExpensive,
    UnreadableExpression,
    speaks_of_load,
)
from one_preempt.core.matching.expressions.requirements import CURRENT_VMS, Residents
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.matching.turned_hosts import TurnedHosts
from one_preempt.core.model.cluster_state import HostTable
from one_preempt.core.model.host import Host
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.virtual_machine import VirtualMachine


class HostMatch(Struct, frozen=True):
    """The hosts that suit a VM, by row of the host table, and how many were ruled out by which test.

    `refusal` is set where none suits; it names no VM, for one match is for all of a kind. `unknown_names` are then
    attributes that the owner's requirements ask for and no host has. `follows_current_vms`: the requirements speak of
    VMs on the hosts and must be tested again on the hosts as they have become. `follows_load`: they might have another
    answer when VMs come or go.
    """

    mask: BoolArray
    counts: Mapping[str, int]
    refusal: Unplaced | None = None
    follows_current_vms: bool = False
    follows_load: bool = False
    is_put_off: bool = False
    unknown_names: tuple[str, ...] = ()


# So many kinds of VMs and ranks are kept in any case, however few VMs there are.
KINDS_KEPT = 4096


class _Found(Struct):
    """What was found for VMs of a kind, and the hosts that `met` their requirements, after so many changes of hosts."""

    match: HostMatch
    met: BoolArray | None
    number: int


class StaticHostMatch:
    """Matches each distinct kind of VM once, and again only on hosts of which more than their load has changed."""

    def __init__(
        self,
        snapshot: PoolSnapshot,
        hosts: HostTable,
        access: AccessRules | None,
        expressions: Expressions,
        prematched: Mapping[int, Prematch],
    ) -> None:
        self._snapshot = snapshot
        self._hosts = hosts
        self._access = access
        self._expressions = expressions
        self._prematched = prematched
        ordered = [snapshot.hosts[host_id] for host_id in hosts.ids.tolist()]
        self._cluster_ids = np.array([host.cluster_id for host in ordered], dtype=np.int64)
        self._pinned_only = np.array([host.pinned_only for host in ordered], dtype=np.bool_)
        self._public = np.array(list(map(_is_public, ordered)), dtype=np.bool_)
        self._enabled = hosts.accepts_vms & ~self._public
        # Of these rows the attributes are to be read before somebody asks for them.
        self._renewed = set(range(len(ordered)))
        self._attributes: list[Attributes] = [{}] * len(ordered)
        self._found: dict[tuple[object, ...], HostMatch] = {}
        self._found_by_load: list[tuple[object, ...]] = []
        self._put_off: list[tuple[object, ...]] = []
        # Of whom was asked last: his request is looked at from several sides, one after the other.
        self._last: tuple[VirtualMachine, HostMatch] | None = None
        self._lasting: dict[tuple[object, ...], _Found] = {}
        self._last_asked: tuple[Sequence[int], AttributeTable] | None = None
        self.turned = TurnedHosts(len(ordered))

    @cached_property
    def table(self) -> AttributeTable:
        """The attributes of the hosts, by row."""
        hosts = self._snapshot.hosts
        ids = self._hosts.ids.tolist() if self._renewed else ()
        for row in self._renewed:
            self._attributes[row] = host_attributes(hosts[ids[row]])
        self._renewed.clear()
        return AttributeTable(HOST_LAYOUT, list(self._attributes))

    def table_of(self, rows: Sequence[int]) -> AttributeTable:
        """The attributes of some hosts."""
        # What was found before is mostly of one age: most kinds ask for the same rows, one after the other.
        if self._last_asked is None or self._last_asked[0] != rows:
            attributes = [host_attributes(self._hosts.hosts[row]) for row in rows]
            self._last_asked = rows, AttributeTable(HOST_LAYOUT, attributes)
        return self._last_asked[1]

    @cached_property
    def _observed(self) -> Room:
        return Room(self._snapshot, self._hosts)

    def follow(self, snapshot: PoolSnapshot, hosts: HostTable) -> bool:
        """Match with the same hosts as they are now; False where there are others.

        What was found is looked at again where more than the load has changed of them.
        """
        before, self._last = self._hosts.hosts, None
        for key in self._put_off:
            del self._found[key]
        self._put_off.clear()
        if hosts is self._hosts:
            self._snapshot = snapshot
            self.__dict__.pop("_observed", None)
            return True
        if len(before) != len(hosts.hosts) or not before:
            return False
        if hosts.ids is not self._hosts.ids and (hosts.ids != self._hosts.ids).any():
            return False
        rows, turned = hosts.rows_since(self._hosts), hosts.turned_since(self._hosts)
        self._snapshot, self._hosts = snapshot, hosts
        self.__dict__.pop("_observed", None)
        if rows:
            self.__dict__.pop("table", None)
            self._last_asked = None
            self._renewed.update(rows)
            for key in self._found_by_load:
                del self._found[key]
            self._found_by_load.clear()
            self._turn(turned)
        return True

    def _turn(self, rows: list[int]) -> None:
        """Of these hosts more than the load has changed."""
        if not rows:
            return
        for row in rows:
            host = self._hosts.hosts[row]
            self._cluster_ids[row], self._pinned_only[row] = host.cluster_id, host.pinned_only
            self._public[row] = _is_public(host)
        self._enabled = self._hosts.accepts_vms & ~self._public
        self._found.clear()
        self.turned.note(rows)

    @property
    def kinds(self) -> int:
        """How many kinds of VMs are remembered, those included of which there may be none any more."""
        return len(self._found) + len(self._lasting)

    def match(self, vm: VirtualMachine) -> HostMatch:
        """The hosts that suit `vm` as they were observed."""
        if self._last is not None and self._last[0] is vm:
            return self._last[1]
        prematch = self._prematched.get(vm.id)
        leaving_id = vm.host_id if moves(vm) else None
        key = (
            vm.automatic_requirements,
            vm.sched_requirements,
            vm.uid,
            vm.gid,
            vm.is_pinned,
            leaving_id,
            vm.extended,
            prematch.host_ids if prematch else None,
            _asks_for_public_cloud(vm),
            _given_networks(vm),
        )
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._looked_up(key, vm, leaving_id, prematch)
            if found.is_put_off:
                self._put_off.append(key)
            elif found.follows_load:
                self._found_by_load.append(key)
        self._last = vm, found
        return found

    def _looked_up(
        self, key: tuple[object, ...], vm: VirtualMachine, leaving_id: int | None, prematch: Prematch | None
    ) -> HostMatch:
        """What lasts of what was found before is the very object where the same is found again."""
        known = self._lasting.get(key)
        rows = None if known is None else self.turned.since(known.number)
        if known is None or rows is None:
            known = self._match(vm, leaving_id, prematch)
            if not known.match.follows_load:
                self._lasting[key] = known
        elif rows and known.met is not None:
            turned, was_met = self.table_of(rows), bool(known.met.any())
            try:
                known.met[rows] = self._expressions.all_met(_requirements(vm), turned, uid=vm.uid)
            except TooExpensive as error:
                del self._lasting[key]
                return _refused(len(self._hosts.ids), error)
            before = known.match.unknown_names
            unknown = tuple([name for name in before if turned.column(name) is None])
            if was_met:
                unknown = self._unknown_names(vm, known.met)
            known.number, match = self.turned.number, self._tested(vm, leaving_id, prematch, known.met, unknown)
            if not _say_the_same(match, known.match):
                known.match = match
        return known.match

    def requirements_now(self, vm: VirtualMachine, room: Room) -> BoolArray:
        """The hosts that meet the requirements with the VMs placed so far counted as theirs.

        None of them once the requirements of its owner have taken as long as they may.
        """
        try:
            return self._expressions.all_met(_requirements(vm), self.table, room.rows_of, uid=vm.uid)
        except TooExpensive:
            return np.zeros(len(self._hosts.ids), dtype=np.bool_)

    def suited_beside(self, vm: VirtualMachine, residents: Residents) -> BoolArray:
        """The hosts that `match` would find if VMs were where `residents` has them; not remembered."""
        leaving_id = vm.host_id if moves(vm) else None
        try:
            met = self._expressions.all_met(_requirements(vm), self.table, residents, uid=vm.uid)
        except UnreadableExpression:
            return np.zeros(len(self._hosts.ids), dtype=np.bool_)
        return self._tested(vm, leaving_id, self._prematched.get(vm.id), met).mask

    def _match(self, vm: VirtualMachine, leaving_id: int | None, prematch: Prematch | None) -> _Found:
        nothing, number = np.zeros(len(self._hosts.ids), dtype=np.bool_), self.turned.number
        refusal = _unsupported(vm)
        if refusal is not None:
            return _Found(HostMatch(nothing, {}, refusal), None, number)
        try:
            met = self._expressions.all_met(_requirements(vm), self.table, self._observed.rows_of, uid=vm.uid)
        except UnreadableExpression as error:
            return _Found(_refused(len(nothing), error), None, number)
        return _Found(self._tested(vm, leaving_id, prematch, met, self._unknown_names(vm, met)), met, number)

    def _unknown_names(self, vm: VirtualMachine, met: BoolArray) -> tuple[str, ...]:
        """Attributes that the owner's requirements, which no host meets, ask for and no host has."""
        if met.any() or not vm.sched_requirements:
            return ()
        return self._expressions.requirement("SCHED_REQUIREMENTS", vm.sched_requirements).unknown_names(self.table)

    def _tested(
        self,
        vm: VirtualMachine,
        leaving_id: int | None,
        prematch: Prematch | None,
        met: BoolArray,
        unknown_names: tuple[str, ...] = (),
    ) -> HostMatch:
        tests = {
            reasons.NOT_ENABLED: self._enabled,
            reasons.OTHER_HOST_WANTED: self._hosts.ids != (-1 if leaving_id is None else leaving_id),
            reasons.PINNED_ONLY: self._pinned_only if vm.is_pinned else ~self._pinned_only,
            reasons.NOT_AUTHORIZED: self._authorized(vm, prematch),
            reasons.REQUIREMENTS: met & self._reached_by(_given_networks(vm)),
        }
        mask = np.ones(len(self._hosts.ids), dtype=np.bool_)
        counts: dict[str, int] = {}
        for code, passed in tests.items():
            counts[code] = int(np.count_nonzero(mask & ~passed))
            mask &= passed
        refusal = None if mask.any() else reasons.no_host(counts, "a VM of this kind", unknown_names)
        follows_load = any(speaks_of_load(text) for _, text in _requirements(vm))
        follows_vms = CURRENT_VMS in vm.sched_requirements
        return HostMatch(mask, counts, refusal, follows_vms, follows_load, unknown_names=unknown_names)

    def _reached_by(self, network_ids: Iterable[int]) -> BoolArray:
        """The hosts in clusters of all these networks: what an automatic NIC was given stays in no requirement."""
        known = self._snapshot.networks
        reached = np.ones(len(self._hosts.ids), dtype=np.bool_)
        for network_id in network_ids:
            if network_id in known:
                reached &= np.isin(self._cluster_ids, known[network_id].cluster_ids)
        return reached

    def _authorized(self, vm: VirtualMachine, prematch: Prematch | None) -> BoolArray:
        if prematch is not None:
            return np.isin(self._hosts.ids, sorted(prematch.host_ids))
        if self._access is None:
            return np.ones(len(self._hosts.ids), dtype=np.bool_)
        return self._access.hosts(self._access.owner_of(vm), self._hosts.ids, self._cluster_ids)


def _refused(hosts: int, error: UnreadableExpression) -> HostMatch:
    code = reasons.NEXT_CYCLE if isinstance(error, NotThisCycle) else reasons.UNREADABLE
    refusal, put_off = reasons.unplaced(code, str(error)), isinstance(error, TooExpensive)
    nowhere = np.zeros(hosts, dtype=np.bool_)
    return HostMatch(nowhere, {}, refusal, follows_load=put_off, is_put_off=put_off)


def _is_public(host: Host) -> bool:
    return host.attributes.get("TEMPLATE/PUBLIC_CLOUD", ("",))[0].upper() == "YES"


def _say_the_same(one: HostMatch, other: HostMatch) -> bool:
    return one.counts == other.counts and one.refusal == other.refusal and bool((one.mask == other.mask).all())


def _requirements(vm: VirtualMachine) -> tuple[tuple[str, str], ...]:
    return (
        ("AUTOMATIC_REQUIREMENTS", vm.automatic_requirements),
        ("SCHED_REQUIREMENTS", vm.sched_requirements),
    )


def _given_networks(vm: VirtualMachine) -> tuple[int, ...]:
    return tuple([nic.network_id for nic in vm.nics if nic.automatic and nic.network_id is not None]) if vm.nics else ()


def _asks_for_public_cloud(vm: VirtualMachine) -> bool:
    return "PUBLIC_CLOUD" in vm.user_template or "EC2" in vm.user_template


def _unsupported(vm: VirtualMachine) -> Unplaced | None:
    """Kinds of VMs that are refused whatever there is."""
    if not vm.extended:
        return reasons.unplaced(reasons.INCOMPLETE, "Its full document was not read yet.")
    if _asks_for_public_cloud(vm):
        text = (
            "It asks for a public cloud (PUBLIC_CLOUD or EC2), which OpenNebula gave up in 7.0 and this scheduler too."
        )
        return reasons.unplaced(reasons.PUBLIC_CLOUD, text)
    return None
