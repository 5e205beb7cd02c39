"""The matchmaker's settings: what sched.conf and rank.conf can say."""

from __future__ import annotations

from msgspec import Struct

from one_preempt.core.host_selection import striping
from one_preempt.core.host_selection.selection import HostSelection
from one_preempt.core.model.plan import MigrationType

_DATASTORE_RANKS = {"packing": "- FREE_MB", "striping": "FREE_MB", "fixed": "PRIORITY"}
_NETWORK_RANKS = {"packing": "USED_LEASES", "striping": "- USED_LEASES", "fixed": "PRIORITY"}


class MatchOptions(Struct, frozen=True):
    """Limits (0 = none) and default policies; a VM's own SCHED_RANK and SCHED_DS_RANK win.

    `max_vm` VMs are looked at in a cycle, `max_dispatch` started, `max_host` of them on one host. The ranks of
    datastores and networks are expressions; `datastore_rank` and `network_rank` give those of the policies.
    `accept_unmonitored_datastores`: take a shared system datastore whose space was never measured when there is no
    other; the matchmaker never does. `live_rescheds` and `cold_migrate_mode` say how a VM with RESCHED moves.
    `check_access` False leaves the ACL tests to oned, which made them before it called a driver.
    """

    max_vm: int = 5000
    max_dispatch: int = 30
    max_host: int = 1
    host_selection: HostSelection = striping.POLICY
    datastore_rank: str = _DATASTORE_RANKS["striping"]
    network_rank: str = _NETWORK_RANKS["striping"]
    different_networks: bool = True
    memory_system_ds_scale: float = 0.0
    live_rescheds: bool = False
    cold_migrate_mode: MigrationType = MigrationType.SAVE
    accept_unmonitored_datastores: bool = False
    check_access: bool = True


def datastore_rank(policy: str, custom_rank: str = "") -> str:
    """The rank expression of a datastore policy: packing, striping, custom or fixed."""
    return _DATASTORE_RANKS.get(policy, custom_rank)


def network_rank(policy: str, custom_rank: str = "") -> str:
    """The rank expression of a network policy: packing, striping, custom or fixed."""
    return _NETWORK_RANKS.get(policy, custom_rank)
