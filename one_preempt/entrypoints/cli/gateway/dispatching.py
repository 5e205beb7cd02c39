"""One external request, zone after zone: asked for, tried, told; in an order that a death at any point leaves whole.

The gateway has written the zone down before we hear it. We tell it what came of it afterwards. In between the token
stands in the VMs: whoever continues looks for it before anything is created.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from one_preempt.adapters.daemon_socket.gateway_client import GatewayDeclined, GatewayUnavailable
from one_preempt.adapters.opennebula.owner_account import OwnerAccount, Source, text_of_file
from one_preempt.adapters.opennebula.owner_template import GATEWAY, SUBMISSION
from one_preempt.entrypoints.cli.gateway.asking import Ask, account_in, told
from one_preempt.entrypoints.cli.lease.asked_terms import AskedTerms
from one_preempt.entrypoints.cli.lease.creation import CreationFailed, create_all, vm_list
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable
from one_preempt.ports import CloudUnavailable

LONGEST_REASON = 1000
SIGN_OF_LIFE_S = 20.0
SHOWS_PROGRESS_FROM = 10
# Any group may create VMs in all zones of a federation; a zone's hosts and datastores are given to groups one by one.
NO_RESOURCES = (
    "you may use no system datastore there, so your VMs could not run: ask the administrator for resources of this zone"
)

Say = Callable[[str], None]


class Made(Struct, frozen=True):
    """What VMs are made of: a VM template that each zone has under one name, or the text of a whole one."""

    template: str | None
    file: Path | None

    def check(self) -> None:
        """Raises `OnePreemptError` where the file is no template: no zone could do anything about it."""
        if self.file is not None:
            text_of_file(self.file)

    def source(self, account: OwnerAccount) -> Source:
        """The same in a zone; raises `OnePreemptError` where the zone does not have it, or does not answer."""
        if self.template is not None:
            return Source(template_id=account.template_called(self.template))
        assert self.file is not None, "one of both was given"
        return Source(text=text_of_file(self.file))


class Turn(Struct, frozen=True):
    """It is the turn of this zone."""

    number: int
    token: str
    zone: str
    endpoint: object
    why: str


class Placed(Struct, frozen=True):
    """Where the request is; `tried` are zones before, with their reasons."""

    turn: Turn
    vm_ids: list[int]
    tried: tuple[tuple[str, str], ...]


class _NotHere(OnePreemptError):
    """This zone will not do, and nothing of the request is in it. `reached` False: it does not answer."""

    def __init__(self, text: str, *, reached: bool) -> None:
        super().__init__(text)
        self.reached = reached


class _Unknown(OnePreemptError):
    """Something of the request may be in this zone."""


class _SignsOfLife:
    """Tells the gateway now and then that VMs are still being created, so that nobody looks for them yet."""

    def __init__(self, ask: Ask, turn: Turn) -> None:
        self._ask = ask
        self._turn = turn
        self._last_s = time.monotonic()

    def give(self) -> None:
        """One more VM was created."""
        if time.monotonic() - self._last_s < SIGN_OF_LIFE_S:
            return
        with suppress(OnePreemptError):
            self._ask("working", request=self._turn.number, zone=self._turn.zone)
        self._last_s = time.monotonic()


def dispatch(ask: Ask, made: Made, asked: AskedTerms, say: Say, continued: int | None = None) -> Placed:
    """Have the request in one zone, with all its VMs on HOLD. Raises `OnePreemptError` where it is in none.

    `continued` is the number of a request whose command ended before it had an outcome. `say` hears why a zone was
    passed over.
    """
    turn = _opened(ask, asked) if continued is None else _continued(ask, asked, continued)
    tried: list[tuple[str, str]] = []
    look_first = continued is not None
    while True:
        try:
            vm_ids = _in_zone(ask, turn, made, asked, look_first, say)
        except _NotHere as refusal:
            tried.append((turn.zone, str(refusal)))
            following = _following(ask, turn, refusal)
            if following is None:
                raise OnePreemptError(_refused_by_all(turn.number, tried)) from None
            say(f"zone {turn.zone}: {refusal}; next: {following.zone} ({following.why})")
            turn, look_first = following, False
        except _Unknown as unknown:
            raise OnePreemptError(_left_open(ask, turn, unknown)) from None
        except KeyboardInterrupt:
            say(f"request {turn.number} was interrupted in zone {turn.zone}: see gateway show {turn.number}")
            raise
        else:
            _tell_placed(ask, turn, vm_ids, say)
            return Placed(turn, vm_ids, tuple(tried))


def _following(ask: Ask, turn: Turn, refusal: _NotHere) -> Turn | None:
    """The zone that is next where this one will not do; None where there is none."""
    text, reached = str(refusal)[:LONGEST_REASON], refusal.reached
    try:
        return _turn(ask("refused", request=turn.number, zone=turn.zone, text=text, reached=reached))
    except GatewayUnavailable as error:
        why = str(refusal).rstrip(".")
        raise OnePreemptError(
            f"zone {turn.zone} does not take request {turn.number}: {why}. {error}. Nothing of it is in that zone; to "
            f"have the next one tried, once the gateway answers: the same command with --continue {turn.number}"
        ) from None


def _opened(ask: Ask, asked: AskedTerms) -> Turn:
    terms = asked.terms
    duration = {} if terms.duration_s is None else {"duration_s": terms.duration_s}
    answer = ask("open", type=terms.type.value, size=terms.size, name=terms.name, **duration)
    turn = _turn(answer)
    if turn is None:
        raise OnePreemptError("the gateway has no zone for this request")
    return turn


def _continued(ask: Ask, asked: AskedTerms, number: int) -> Turn:
    """The zone that has the request. What is asked must be the same: VMs of both times form one lease."""
    known = told(ask("show", request=number), "request", dict)
    terms = asked.terms
    if (known.get("type"), known.get("size"), known.get("name")) != (terms.type.value, terms.size, terms.name):
        raise OnePreemptError(
            f"request {number} was for {known.get('size')} VMs of type {known.get('type')} named "
            f"{known.get('name')!r}: continue it with the same options"
        )
    turn = _turn(ask("continue", request=number))
    if turn is None:
        raise OnePreemptError(f"request {number} has no zone: submit it anew")
    return turn


def _turn(answer: dict[str, Any]) -> Turn | None:
    if answer.get("zone") is None:
        return None
    return Turn(
        told(answer, "number", int), told(answer, "token", str), told(answer, "zone", str), answer.get("endpoint"),
        told(answer, "why", str),
    )  # fmt: skip


def _in_zone(ask: Ask, turn: Turn, made: Made, asked: AskedTerms, look_first: bool, say: Say) -> list[int]:
    """All VMs of the request, created or found there. Raises `_NotHere` and `_Unknown`."""
    looked = not look_first
    try:
        with account_in(turn.zone, turn.endpoint) as account:
            if look_first and (found := _found(account, turn, asked, say)):
                return found
            looked = True
            return _created(ask, account, turn, made, asked)
    except (_NotHere, _Unknown):
        raise
    except OnePreemptError as error:
        if not looked:  # what a former attempt made may be there still
            raise _Unknown(str(error)) from None
        raise _NotHere(str(error), reached=not isinstance(error, CloudUnavailable)) from None


def _created(ask: Ask, account: OwnerAccount, turn: Turn, made: Made, asked: AskedTerms) -> list[int]:
    # A zone that is away, or does not know us, is left by this first call: nothing has been created then.
    if not account.may_use_a_system_datastore():
        raise OnePreemptError(NO_RESOURCES)
    source = made.source(account)
    marks = {SUBMISSION: turn.token, GATEWAY: str(turn.number)}
    signs = _SignsOfLife(ask, turn)
    shown = sys.stderr.isatty() and asked.terms.size >= SHOWS_PROGRESS_FROM
    label = f"Creating in {printable(turn.zone)}"
    bar = click.progressbar(length=asked.terms.size, label=label, file=sys.stderr, hidden=not shown)

    def progress(created: int) -> None:
        bar.update(created)
        signs.give()

    try:
        with bar:
            return create_all(account, source, asked, progress, marks)
    except CreationFailed as failed:
        if failed.leaves_vms:
            raise _Unknown(str(failed)) from None
        raise _NotHere(str(failed), reached=failed.reached) from None


def _found(account: OwnerAccount, turn: Turn, asked: AskedTerms, say: Say) -> list[int]:
    """The VMs of a former attempt, where they are all there; none are left where they are not."""
    try:
        problems: list[str] = []
        found = sorted(account.submitted(turn.token, problems))
        if problems:
            raise CloudUnavailable(f"zone {turn.zone}: {problems[0]}, because it may be one of these")
        if len(found) == asked.terms.size:
            say(f"its VMs are in zone {turn.zone} already")
            return found
        if len(found) > asked.terms.size:
            raise _Unknown(
                f"{len(found)} VMs of it are in zone {turn.zone}, {asked.terms.size} were asked: end those that are "
                f"too many, of VM {vm_list(found)}"
            )
        for vm_id in found:
            account.terminate(vm_id, hard=False)
    except CloudUnavailable as error:
        raise _Unknown(str(error)) from None
    except OnePreemptError as error:
        if isinstance(error, _Unknown):
            raise
        raise _Unknown(f"what a former attempt has left in zone {turn.zone} could not be ended: {error}") from None
    if found:
        say(f"{len(found)} VMs of a former attempt were ended in zone {turn.zone}, because it was not complete")
    return []


def _tell_placed(ask: Ask, turn: Turn, vm_ids: list[int], say: Say) -> None:
    """The VMs are there, whatever the gateway says; only where the request was cancelled meanwhile they are ended."""
    try:
        ask("placed", request=turn.number, zone=turn.zone, vm_ids=vm_ids)
    except GatewayUnavailable as error:
        say(f"the VMs were created, but the gateway was not told: it finds them by itself ({error})")
    except GatewayDeclined as declined:
        left = _ended(turn, vm_ids)
        what = "they were ended" if not left else f"end them: VM {vm_list(left)} in zone {turn.zone}"
        raise OnePreemptError(f"the VMs of request {turn.number} were created, and then {declined}; {what}") from None


def _ended(turn: Turn, vm_ids: list[int]) -> list[int]:
    """End these VMs; those that could not be."""
    left = list(vm_ids)
    with suppress(OnePreemptError), account_in(turn.zone, turn.endpoint) as account:
        for vm_id in vm_ids:
            with suppress(OnePreemptError):
                account.terminate(vm_id, hard=False)
                left.remove(vm_id)
    return left


def _left_open(ask: Ask, turn: Turn, unknown: _Unknown) -> str:
    later = ""
    with suppress(OnePreemptError):
        answer = ask("unanswered", request=turn.number, zone=turn.zone, text=str(unknown)[:LONGEST_REASON])
        later = f" after {told(answer, 'continue_in_s', int)} s"
    why = str(unknown).rstrip(".")
    return (
        f"request {turn.number} stays at zone {turn.zone}, where VMs of it may be: {why}. To go on{later}: the same "
        f"command with --continue {turn.number}; to give it up: one-preempt gateway cancel {turn.number}"
    )


def _refused_by_all(number: int, tried: list[tuple[str, str]]) -> str:
    each = "; ".join(f"{zone}: {why}".rstrip(".") for zone, why in tried)
    return f"request {number} is in no zone. {each}"
