"""Whatever is said to the desk in whatever order: what the ledger has fits together."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.adapters.clock import FixedClock
from one_preempt.adapters.lease_store.sql_gateway_ledger import SqlGatewayLedger
from one_preempt.core.gateway.requests import UNSETTLED, AttemptOutcome, RequestState
from one_preempt.core.gateway.shares import Allocation, Answer
from one_preempt.core.model.lease import LeaseType
from one_preempt.gateway.desk import Caller, DeskRules, GatewayDesk
from one_preempt.gateway.messages import (
    Cancelled,
    Continue,
    Message,
    MessageError,
    Open,
    Placed,
    Refused,
    Unanswered,
    Working,
    parse_message,
)
from one_preempt.policy_registry import DISPATCH_POLICIES
from tests.gateway.federation import empty_ledger

NOW_S = 1_790_000_000
ZONES = {"north": "http://north/RPC2", "south": "http://south/RPC2", "west": "http://west/RPC2"}
TYPES = ("BE-SUSPENDABLE", "DC-MIGRATABLE")
EVA = Caller(1000, "eva", is_trusted=False)

steps = st.tuples(
    st.sampled_from(("open", "refused", "unanswered", "placed", "cancelled", "continue", "working", "wait", "shares")),
    st.integers(1, 6),
    st.sampled_from(tuple(ZONES)),
    st.integers(0, 10),
)


def said(kind: str, number: int, zone: str, more: int) -> Message:
    """A message; it may make no sense just now."""
    match kind:
        case "open":
            return Open(version=1, type=TYPES[more % 2], size=1 + more % 2)  # type: ignore[arg-type]
        case "refused":
            return Refused(version=1, request=number, zone=zone, text="no", reached=bool(more % 2))
        case "unanswered":
            return Unanswered(version=1, request=number, zone=zone, text="?")
        case "placed":
            return Placed(version=1, request=number, zone=zone, vm_ids=list(range(1 + more % 2)))
        case "cancelled":
            return Cancelled(version=1, request=number)
        case "continue":
            return Continue(version=1, request=number)
    return Working(version=1, request=number, zone=zone)


def judge(ledger: SqlGatewayLedger) -> None:
    """What must hold between any two messages."""
    requests = ledger.requests(limit=1000)
    for kind in LeaseType:
        expected = dict.fromkeys(ZONES, 0.0)
        for request in requests:
            if request.type is kind:
                for zone, charge in request.charges.items():
                    expected[zone] += charge
        found = ledger.balances(kind.value)
        assert {zone: found.get(zone, 0.0) for zone in ZONES} == pytest.approx(expected, abs=1e-7)
        assert sum(found.values()) == pytest.approx(0.0, abs=1e-6)
    for request in requests:
        tried = [attempt.zone for attempt in request.attempts]
        assert len(set(tried)) == len(tried), "no zone has two turns"
        assert all(attempt.outcome is AttemptOutcome.REFUSED for attempt in request.attempts[:-1])
        assert (len(request.vm_ids) == request.size) is (request.state is RequestState.PLACED) or (
            request.state is RequestState.CANCELLED
        )
        assert (request.ended_at_s is None) is (request.state in (*UNSETTLED, RequestState.PLACED))
        if request.state in (RequestState.REFUSED, RequestState.ABANDONED):
            assert request.charges == {}


@settings(max_examples=60)
@given(st.lists(steps, max_size=40), st.sampled_from(sorted(DISPATCH_POLICIES.all())))
def test_the_ledger_fits_together(plan: list[tuple[str, int, str, int]], policy: str) -> None:
    folder = Path(empty_ledger()).parent
    shutil.copy(empty_ledger(), folder / "drawn.db")
    tokens = count()
    clock = FixedClock(NOW_S)
    rules = DeskRules(ZONES, DISPATCH_POLICIES.all()[policy], 0, 180, 5, 10_000)
    with closing(SqlGatewayLedger(f"sqlite:///{folder}/drawn.db")) as ledger:
        desk = GatewayDesk(ledger, clock, rules, lambda: f"token {next(tokens)}", lambda: None)
        for kind, number, zone, more in plan:
            if kind == "wait":
                clock.set(clock.now_s() + 30 * more)
            elif kind == "shares":
                first, second = more / 20, (10 - more) / 20
                parts = {"north": first, "south": second, "west": 0.5} if number % 2 else {"north": 1.0, "south": 0.0}
                ledger.record_allocation(Allocation(clock.now_s(), Answer("PAP", parts), "", tuple(ZONES)))
            else:
                answer: Mapping[str, Any] = desk.answer(said(kind, number, zone, more), EVA)
                assert answer["ok"] or answer["error"]
            judge(ledger)


@given(st.binary(max_size=300))
def test_no_bytes_make_more_than_a_refusal(line: bytes) -> None:
    with suppress(MessageError):
        parse_message(line)
