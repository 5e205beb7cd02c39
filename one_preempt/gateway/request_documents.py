"""Requests as documents: what the desk tells of them over its socket."""

from __future__ import annotations

from one_preempt.core.gateway.requests import GatewayRequest


def turn_document(request: GatewayRequest, endpoint: str | None) -> dict[str, object]:
    """Whose turn it is: the zone of the last attempt, and where it is; None where it is configured no more."""
    return {
        "number": request.number,
        "token": request.token,
        "zone": request.zone,
        "endpoint": endpoint,
        "why": request.attempts[-1].why,
        "type": request.type.value,
        "size": request.size,
        "name": request.name,
    }


def in_list(request: GatewayRequest) -> dict[str, object]:
    """What a list has of a request: without what may be long."""
    return {
        "number": request.number,
        "user": request.user,
        "type": request.type.value,
        "size": request.size,
        "name": request.name[:80],
        "opened_at_s": request.opened_at_s,
        "state": request.state.value,
        "zone": request.zone,
        "text": request.text[:200],
    }


def described(request: GatewayRequest) -> dict[str, object]:
    """All of a request, as a document."""
    return in_list(request) | {
        "name": request.name,
        "text": request.text,
        "duration_s": request.duration_s,
        "vm_ids": list(request.vm_ids),
        "ended_at_s": request.ended_at_s,
        "work": request.work,
        "attempts": [
            {
                "zone": attempt.zone,
                "why": attempt.why,
                "begun_at_s": attempt.begun_at_s,
                "outcome": None if attempt.outcome is None else attempt.outcome.value,
                "outcome_at_s": attempt.outcome_at_s,
                "text": attempt.text,
            }
            for attempt in request.attempts
        ],
    }
