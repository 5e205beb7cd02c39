"""How long operations on VMs really took: what the overhead models learn from."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class OverheadKind(StrEnum):
    """An operation on one VM whose time is learned."""

    SUSPEND = "suspend"
    RESUME = "resume"
    MIGRATE = "migrate"
    LIVE_MIGRATE = "live-migrate"
    BOOT = "boot"
    SHUT_DOWN = "shut-down"


class ObservedOverhead(Struct, frozen=True):
    """One observed operation: how long it took, for how much memory, on which system datastore.

    `took_s` is its own share of the time where several shared the storage. MIGRATE is the copy of a cold migration, or
    that to the front-end; there, and in a live migration where the storage is not shared, `memory_mib` counts the disks
    too, for they are copied with the memory.
    """

    kind: OverheadKind
    vm_id: int
    datastore_id: int
    memory_mib: int
    took_s: int
    observed_at_s: int
