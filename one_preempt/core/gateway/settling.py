"""What becomes of a request of which its own command has not said it.

Mostly that follows from the VMs of it that are seen in its zone; of a zone that was taken out, from the administrator.
"""

from __future__ import annotations

from msgspec.structs import replace

from one_preempt.core.gateway.requests import KEPT_VMS, UNSETTLED, AttemptOutcome, GatewayRequest, RequestState


def settled(request: GatewayRequest, vm_ids: tuple[int, ...], now_s: int) -> GatewayRequest:
    """The request once these VMs, and no others, were seen in the zone that has or had it.

    One that was given up is taken up again, and charged again, where VMs of it are there after all: a call may be
    carried out late, and a command that was stopped may go on. For the same reason one that was placed may have more
    VMs than were asked, which is told. Others than these, open and unanswered ones stay as they are.
    """
    if request.state is RequestState.PLACED and max(len(vm_ids), len(request.vm_ids)) > request.size:
        return _with_too_many(request, vm_ids)
    if not request.may_come_to_light:
        return request
    if len(vm_ids) >= request.size:
        return _placed(request, vm_ids, now_s)
    if vm_ids:
        return _incomplete(request, vm_ids, now_s)
    if request.state is RequestState.ABANDONED:
        return request
    text = "its command ended, and nothing of it is there"
    gone = replace(request.answered(AttemptOutcome.NOTHING_THERE, text, now_s), vm_ids=())
    return gone.without_charges().over(RequestState.ABANDONED, text, now_s)


def given_up(request: GatewayRequest, now_s: int) -> GatewayRequest:
    """The request of a zone that was taken out and of which nothing more is expected.

    What is known of its VMs stays on record: should the zone be put back, they are found there.
    """
    assert request.state in (*UNSETTLED, RequestState.PLACED), "others have their outcome"
    text = "its zone was taken out of the gateway, and its administrator gave it up"
    if request.vm_ids:
        more = len(request.vm_ids) - KEPT_VMS
        ids = ", ".join(map(str, request.vm_ids[:KEPT_VMS])) + (f" and {more} more" if more > 0 else "")
        text += f"; VMs of it may be there: {ids}"
    if request.state is not RequestState.PLACED:
        request = request.answered(AttemptOutcome.GIVEN_UP, "", now_s)
    return request.without_charges().over(RequestState.ABANDONED, text, now_s)


def _placed(request: GatewayRequest, vm_ids: tuple[int, ...], now_s: int) -> GatewayRequest:
    text = _too_many(request, vm_ids) or "its VMs were found there"
    placed = request.charged_again().answered(AttemptOutcome.PLACED, text, now_s)
    return replace(placed, state=RequestState.PLACED, vm_ids=vm_ids, text=text, ended_at_s=None)


def _with_too_many(request: GatewayRequest, vm_ids: tuple[int, ...]) -> GatewayRequest:
    return replace(request, vm_ids=vm_ids, text=_too_many(request, vm_ids)) if vm_ids else request


def _too_many(request: GatewayRequest, vm_ids: tuple[int, ...]) -> str:
    more = len(vm_ids) > request.size
    return f"{len(vm_ids)} VMs were found there, {request.size} were asked: end the others" if more else ""


def _incomplete(request: GatewayRequest, vm_ids: tuple[int, ...], now_s: int) -> GatewayRequest:
    text = f"{len(vm_ids)} of {request.size} VMs are there: continue it (gateway submit --continue), or cancel it"
    if request.state is RequestState.ABANDONED:
        again = request.charged_again().answered(AttemptOutcome.UNANSWERED, text, now_s)
        request = replace(again, state=RequestState.UNANSWERED, ended_at_s=None)
    return replace(request, vm_ids=vm_ids, text=text)
