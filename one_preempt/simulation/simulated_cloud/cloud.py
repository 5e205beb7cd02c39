"""The simulated cloud: one zone of OpenNebula in memory, over virtual time.

It keeps oned's states, legal actions, rights, locks, quotas and accounting, finishes accepted work asynchronously
under the drivers' ceilings, and shares no arithmetic with the scheduler, so that it can catch its mistakes.
"""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud.audit import discrepancies
from one_preempt.simulation.simulated_cloud.authorization import shipped_rules
from one_preempt.simulation.simulated_cloud.calls.access import AccessCalls
from one_preempt.simulation.simulated_cloud.calls.hooks import HookCalls
from one_preempt.simulation.simulated_cloud.calls.pools import PoolCalls
from one_preempt.simulation.simulated_cloud.furnishing import Furnishing
from one_preempt.simulation.simulated_cloud.objects import SimCluster, SimGroup, SimUser


class SimulatedCloud(Furnishing, AccessCalls, HookCalls, PoolCalls):
    """One zone. Every call takes its `Caller` first and raises `OnedError` where oned refuses.

    Success of a call means accepted; `run_until`, `advance` and `settle` let the accepted work go on. A fresh cloud
    has what a fresh installation has: the users oneadmin and serveradmin, the groups oneadmin and users, the default
    cluster and the shipped rules. `furnishing` methods (`add_host`, `add_user`, ...) build the rest without rights
    or waiting.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.users:
            return
        self.groups.update({0: SimGroup(0, "oneadmin", user_ids=[0, 1]), 1: SimGroup(1, "users")})
        self.users[0] = SimUser(0, 0, [0], "oneadmin", "oneadmin", "opennebula")
        self.users[1] = SimUser(1, 0, [0], "oneadmin", "serveradmin", "opennebula", "server_cipher")
        self.clusters[0] = SimCluster(0, "default", template={"RESERVED_CPU": [""], "RESERVED_MEM": [""]})
        self.acls.update({rule.id: rule for rule in shipped_rules()})
        for rule in self.rules_of_members(1):
            self.acls[rule.id] = rule

    def audit(self) -> list[str]:
        """Every disagreement between the books and a recount from scratch; empty as it should be."""
        return list(discrepancies(self))
