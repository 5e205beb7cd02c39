"""What oned matched before it called a scheduler driver (the REQUIREMENTS element of its document)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Prematch(Struct, frozen=True):
    """Hosts, system datastores and, by NIC id, networks that one VM may have; access rules are in it already.

    The hosts may be a tuple in any order: thousands of VMs have long lists, and a set takes six times the memory.
    """

    host_ids: frozenset[int] | tuple[int, ...]
    datastore_ids: frozenset[int]
    network_ids: Mapping[int, frozenset[int]] = field(default_factory=dict)
