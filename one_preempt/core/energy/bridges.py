"""Hosts that OpenNebula needs whoever runs on them."""

from __future__ import annotations

from collections.abc import Mapping

from one_preempt.core.model.infrastructure import Datastore

_BRIDGES = ("TEMPLATE/BRIDGE_LIST", "TEMPLATE/REPLICA_HOST")


def bridge_hosts(datastores: Mapping[int, Datastore]) -> frozenset[str]:
    """The names of hosts through which OpenNebula reaches a datastore: they never sleep."""
    texts = (text for store in datastores.values() for key in _BRIDGES for text in store.attributes.get(key, ()))
    return frozenset(name for text in texts for name in text.split())
