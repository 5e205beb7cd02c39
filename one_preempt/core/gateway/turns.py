"""Whose turn it is: the zone of the next request, and how far each zone is ahead of its share afterwards.

RTDP asks how many requests of a type a zone got before. It is given by how much a zone is ahead of its share, Y - n P
for n requests: (X + Y) / P and (X + Y - n P) / P differ by n, the same for all zones, so as long as shares stay the
sequence is the paper's. But what is ahead or behind means the same after shares have changed, and a zone that was
away, or refused, is not behind: a request is charged to the zones that could have had it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from one_preempt.core.dispatch.policy import DispatchPolicy, Routing
from one_preempt.core.gateway.requests import BALANCE_DIGITS
from one_preempt.core.gateway.shares import Allocation


class Turn(Struct, frozen=True):
    """The zone that a request goes to, why, and what that adds to the balance of each zone."""

    zone: str
    why: str
    charges: dict[str, float] = {}


def next_turn(
    policy: DispatchPolicy,
    allocation: Allocation | None,
    zones: Sequence[str],
    ahead: Mapping[str, float],
    sent: int,
    without: Collection[str] = (),
    seed: int = 0,
) -> Turn | None:
    """Where a request goes that the zones `without` have refused, `zones` being all there are; None: nowhere is left.

    `ahead` are the balances of its type, `sent` is how many requests were sent before it. First come zones with a
    share, by the policy, then the others in their order.
    """
    shares = {} if allocation is None else allocation.answer.shares
    open_ones = [zone for zone in zones if zone not in without]
    eligible = [zone for zone in open_ones if shares.get(zone, 0.0) > 0]
    if not eligible:
        return None if not open_ones else Turn(open_ones[0], _why_without_share(open_ones[0], allocation))
    assert allocation is not None, "without one there are no shares"
    whole = sum(shares[zone] for zone in eligible)
    parts = tuple(shares[zone] / whole for zone in eligible)
    fastest = next((eligible.index(zone) for zone in allocation.by_speed if zone in eligible), 0)
    # Drawn anew where some have refused: the draw that fell on these would always fall on the same one of the others.
    drawn_by = seed + len(zones) - len(open_ones)
    place = policy.cluster(Routing(parts, fastest, drawn_by), [ahead.get(zone, 0.0) for zone in eligible], sent)
    charges = {
        zone: round((at == place) - part, BALANCE_DIGITS)
        for at, (zone, part) in enumerate(zip(eligible, parts, strict=True))
    }
    why = f"{policy.name} by the shares of {allocation.answer.policy}"
    return Turn(eligible[place], why, {zone: charge for zone, charge in charges.items() if charge})


def _why_without_share(zone: str, allocation: Allocation | None) -> str:
    if allocation is None:
        return "no shares are known yet: zones in the order of the configuration"
    known = allocation.unmeasured.get(zone) or allocation.answer.left_out.get(zone) or "its share is 0"
    return f"no zone with a share is left; of this one it is known: {known}"
