"""Networks for the NICs that leave the choice to the scheduler (NETWORK_MODE = auto)."""

from __future__ import annotations

from collections.abc import Mapping

from one_preempt.core.matching import reasons
from one_preempt.core.matching.access import AccessRules
from one_preempt.core.matching.demands import moves
from one_preempt.core.matching.expressions.attributes import NETWORK_LAYOUT, AttributeTable, network_attributes
from one_preempt.core.matching.expressions.known_answers import KnownAnswers
from one_preempt.core.matching.expressions.known_expressions import MOST_ANSWERS, Expressions, UnreadableExpression
from one_preempt.core.matching.expressions.rank import best_first
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.model.host import Host
from one_preempt.core.model.infrastructure import Network
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.prematch import Prematch
from one_preempt.core.model.virtual_machine import Nic, VirtualMachine

ChosenNetworks = tuple[tuple[int, int], ...] | None


class NetworkMatch:
    """Finds the networks that each automatic NIC may have, best first, and gives them out on a host."""

    def __init__(
        self,
        snapshot: PoolSnapshot,
        access: AccessRules | None,
        expressions: Expressions,
        options: MatchOptions,
        prematched: Mapping[int, Prematch],
    ) -> None:
        self._networks = [snapshot.networks[network_id] for network_id in sorted(snapshot.networks)]
        self._table = AttributeTable(NETWORK_LAYOUT, [network_attributes(network) for network in self._networks])
        self._access = access
        self._expressions = expressions
        self._default_rank = options.network_rank
        self._different_networks = options.different_networks
        self._prematched = prematched
        self._found = KnownAnswers[tuple[Network, ...]](MOST_ANSWERS)

    def open_nics(self, vm: VirtualMachine) -> tuple[Nic, ...]:
        """The NICs that still need a network, in ascending id; none when the VM only moves."""
        if not vm.nics or moves(vm):
            return ()
        waiting = (nic for nic in vm.nics if nic.automatic and nic.network_id is None)
        return tuple(sorted(waiting, key=lambda nic: nic.id))

    def candidates(self, vm: VirtualMachine, nic: Nic) -> tuple[Network, ...]:
        """The networks that a NIC may have wherever the VM goes, best first. Raises UnreadableExpression."""
        prematch = self._prematched.get(vm.id)
        allowed = None if prematch is None else prematch.network_ids.get(nic.id, frozenset())
        key = (vm.uid, vm.gid, allowed, vm.automatic_nic_requirements, nic.sched_requirements, nic.sched_rank)
        return self._found.of(key, lambda: self._match(vm, nic, allowed))

    def _usable(self, vm: VirtualMachine, nic: Nic) -> tuple[Network, ...]:
        """`candidates`, none where they are not known any more and their owner's requirements took too long since."""
        try:
            return self.candidates(vm, nic)
        except UnreadableExpression:
            return ()

    def why_no_candidate(self, vm: VirtualMachine, nic: Nic) -> Unplaced:
        """The reason for which `candidates` found nothing for a NIC."""
        return reasons.none_usable(
            reasons.NETWORK,
            f"networks for NIC {nic.id}",
            exist=bool(self._networks),
            permitted=any(self._permitted(vm, network) for network in self._networks),
            requirement="its SCHED_REQUIREMENTS",
        )

    def choose(self, vm: VirtualMachine, host: Host, room: Room) -> ChosenNetworks:
        """(NIC id, network id) for every open NIC, each its best network with a lease left, or None.

        It is the same on all hosts of a cluster.
        """
        chosen: list[tuple[int, int]] = []
        used: dict[int, int] = {}
        for nic in self.open_nics(vm):
            network = next(
                (
                    network
                    for network in self._usable(vm, nic)
                    if host.cluster_id in network.cluster_ids
                    and not (self._different_networks and network.id in used)
                    and room.free_leases(network.id) > used.get(network.id, 0)
                ),
                None,
            )
            if network is None:
                return None
            used[network.id] = used.get(network.id, 0) + 1
            chosen.append((nic.id, network.id))
        return tuple(chosen)

    def _match(self, vm: VirtualMachine, nic: Nic, allowed: frozenset[int] | None) -> tuple[Network, ...]:
        requirements = (
            ("AUTOMATIC_NIC_REQUIREMENTS", vm.automatic_nic_requirements),
            (f"SCHED_REQUIREMENTS of NIC {nic.id}", nic.sched_requirements),
        )
        met = self._expressions.all_met(requirements, self._table, uid=vm.uid)
        if nic.sched_rank:
            attribute = f"SCHED_RANK of NIC {nic.id}"
            scores = self._expressions.scores(attribute, nic.sched_rank, self._table, uid=vm.uid)
        else:
            scores = self._expressions.rank(self._default_rank).scores(self._table)
        ordered = [(self._networks[row], bool(met[row])) for row in best_first(scores).tolist()]
        if allowed is not None:
            return tuple(network for network, _ in ordered if network.id in allowed)
        return tuple(network for network, suits in ordered if suits and self._permitted(vm, network))

    def _permitted(self, vm: VirtualMachine, network: Network) -> bool:
        return self._access is None or self._access.may_use(self._access.owner_of(vm), network)
