"""Room on a host that is promised and that oned's accounting does not show as taken yet."""

from __future__ import annotations

from msgspec import Struct


class HeldRoom(Struct, frozen=True, order=True):
    """What one VM is going to take on a host. Once the VM is on that host, oned counts it and the promise is kept.

    `expires_at_s`: the promise holds no longer than that, in seconds since the epoch.
    """

    host_id: int
    vm_id: int
    cpu_centi: int
    memory_mib: int
    expires_at_s: int
