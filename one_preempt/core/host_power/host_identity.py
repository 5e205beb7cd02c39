"""Is a host with another name the one that was known by its id, renamed, or another one that has its id by chance?

Nothing in a host's document says when it was created, and ids begin anew with another database of OpenNebula. The name
is the address at which a machine is reached, so whoever is taken for another costs an administrator a look at it; the
other mistake switches a machine that nobody has handed over.
"""

from __future__ import annotations

from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.pool_snapshot import PoolSnapshot
from one_preempt.core.model.power_sequence import PowerSequence


def names_moved(snapshot: PoolSnapshot, ledger: Ledger, of: PowerSequence) -> bool:
    """Is the change of a host's name not the only one: somebody has its old name, or another known host is not there
    as it was?

    Whoever renames a host changes nothing else; with another database there are hardly two hosts as they were.
    """
    hosts = snapshot.hosts
    if any(host.name == of.host_name for host in hosts.values()):
        return True
    others = (one for one in ledger.power_sequences.values() if one.host_id != of.host_id and not one.is_deleted)
    return any(_is_not_as_it_was(one, snapshot) for one in others)


def _is_not_as_it_was(sequence: PowerSequence, snapshot: PoolSnapshot) -> bool:
    host = snapshot.hosts.get(sequence.host_id)
    if host is None:
        return sequence.is_ours and sequence.host_id not in snapshot.unreadable_host_ids
    return host.name != sequence.host_name
