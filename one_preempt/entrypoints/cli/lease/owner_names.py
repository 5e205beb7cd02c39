"""What the users and groups of recorded leases are called: a lease is on record with their ids, oned knows the names.

Names are asked for when leases are shown, and only then. Without an answer of oned, and for who was deleted there, the
id is all there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from msgspec.structs import replace

from one_preempt.composition import open_transport
from one_preempt.configuration.settings import Settings
from one_preempt.core.model.access import Directory
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable

LONGEST_NAME = 40
# Names are no reason to wait for long.
CONNECT_S, ANSWER_S = 2.0, 5.0


def owner_names(settings: Settings, records: Iterable[LeaseRecord]) -> Directory:
    """The users and groups that oned knows; nobody where it does not answer."""
    from one_preempt.adapters.opennebula.access_reader import read_directory
    from one_preempt.adapters.opennebula.snapshot_assembly import GROUP_POOL, USER_POOL
    from one_preempt.adapters.opennebula.untold_pools import UntoldPools

    records = tuple(records)
    uids, gids = frozenset(record.uid for record in records), frozenset(record.gid for record in records)
    if not uids:
        return Directory()
    limits = settings.opennebula
    hurried = replace(
        limits,
        connect_timeout_s=min(limits.connect_timeout_s, CONNECT_S),
        read_timeout_s=min(limits.read_timeout_s, ANSWER_S),
    )
    try:
        with closing(open_transport(replace(settings, opennebula=hurried), attempts=1)) as transport:
            pools = UntoldPools(transport)
            users = pools.document(USER_POOL, (), lambda: uids)
            return read_directory(users, pools.document(GROUP_POOL, (), lambda: gids), b"", [])
    except OnePreemptError:
        return Directory()


def name_document(record: LeaseRecord, names: Directory) -> dict[str, str | None]:
    """`user` and `group` for programs; None where a name is not known."""
    user, group = names.users.get(record.uid), names.groups.get(record.gid)
    return {"user": user.name if user else None, "group": group.name if group else None}


def user_in_words(record: LeaseRecord, names: Directory) -> str:
    """The user's name, or else the id."""
    user = names.users.get(record.uid)
    return printable(user.name, LONGEST_NAME) if user else f"uid {record.uid}"


def owner_in_words(record: LeaseRecord, names: Directory) -> str:
    """User and group with their ids."""
    user, group = names.users.get(record.uid), names.groups.get(record.gid)
    called = f"{printable(user.name, LONGEST_NAME)} (uid {record.uid})" if user else f"uid {record.uid}"
    if group is None:
        return f"{called}, gid {record.gid}"
    return f"{called}, group {printable(group.name, LONGEST_NAME)} (gid {record.gid})"
