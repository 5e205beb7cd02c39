"""What a cycle saw, as numbers: all that a metric can tell of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Observed(Struct, frozen=True):
    """Counts by what they are labelled with, in words of the code: no name that a user gave is among them.

    Attributes:
        paused: Preempting and power actions are stopped.
        leases: How many there are, by type and state.
        refused_leases: Leases that wait on HOLD because they were refused, by the code of the refusal.
        waiting_leases: Leases that got nothing in this cycle, by the code of the reason.
        wait_starts_s: Since when the one that waits longest does, in seconds since the epoch, by the same codes.
        reservations: Stays that leases are promised, by their kind: firm, or a promise of the queue.
        late_reservations: Accepted leases that wait though their START or DEADLINE is over.
        open_preemptions: Preemptions under way.
        advised_preemptions: Preemptions that would be decided, were the configuration to let them.
        image_orders_under_way: Orders for images on hosts of which the end was not heard yet.
        hosts: Hosts that are handed over, by where their power stands.
        power_w: What these draw now by their models; None where there are none.
        always_on_power_w: What they would draw, were all of them on.
    """

    paused: bool = False
    leases: Mapping[tuple[str, str], int] = {}
    refused_leases: Mapping[str, int] = {}
    waiting_leases: Mapping[str, int] = {}
    wait_starts_s: Mapping[str, int] = {}
    reservations: Mapping[str, int] = {}
    late_reservations: int = 0
    open_preemptions: int = 0
    advised_preemptions: int = 0
    image_orders_under_way: int = 0
    hosts: Mapping[str, int] = {}
    power_w: float | None = None
    always_on_power_w: float | None = None
