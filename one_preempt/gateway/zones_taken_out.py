"""Zones that were taken out of the configuration while requests were in them: nobody looks there any more."""

from __future__ import annotations

from collections.abc import Collection

from one_preempt.core.gateway.requests import GatewayRequest
from one_preempt.gateway_ports import GatewayLedger

MEND_OF_LEFT = "put it back into gateway.zones, or give them up: one-preempt gateway give-up ZONE"


def left_in_zones(ledger: GatewayLedger, configured: Collection[str]) -> dict[str, list[GatewayRequest]]:
    """Requests of which something may be in a zone that is not configured any more, by that zone, oldest first."""
    left: dict[str, list[GatewayRequest]] = {}
    for request in sorted((*ledger.unsettled(), *ledger.placed()), key=lambda request: request.number):
        if request.zone not in configured:
            left.setdefault(request.zone, []).append(request)
    return left
