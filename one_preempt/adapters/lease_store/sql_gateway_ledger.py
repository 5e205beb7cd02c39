"""The gateway's ledger in a database of its own, SQLite by default. Every method is one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Row, Select, delete, func, insert, or_, select
from sqlalchemy.engine import Connection

from one_preempt.adapters.lease_store.database import BUSY_TIMEOUT_S
from one_preempt.adapters.lease_store.kept_database import KeptDatabase
from one_preempt.adapters.lease_store.named_database import GATEWAY_LEDGER
from one_preempt.adapters.lease_store.rows import UnreadableRow
from one_preempt.adapters.lease_store.tables import gateway_balances, gateway_documents, gateway_requests
from one_preempt.core.gateway.requests import BALANCE_DIGITS, UNSETTLED, GatewayRequest, RequestState
from one_preempt.core.gateway.shares import Allocation
from one_preempt.core.gateway.streams import ZoneMeasure

T = TypeVar("T")

MEASURE, ALLOCATION = "measure", "allocation"
_OF_NO_ZONE = ""


class SqlGatewayLedger:
    """A `GatewayLedger` in the database at `url`; see `KeptDatabase` for what opening does and raises."""

    def __init__(self, url: str, *, makes: bool = True) -> None:
        self._database = KeptDatabase(url, GATEWAY_LEDGER, BUSY_TIMEOUT_S, makes=makes)

    def acquire_writer(self) -> None:
        """Become the one gateway that writes, or keep being it; raises where another one is."""
        self._database.acquire_writer()

    def last_number(self) -> int:
        """The greatest number that a request has; 0 where there is none."""
        with self._database.reading() as connection:
            return connection.execute(select(func.max(gateway_requests.c.number))).scalar() or 0

    def record(self, request: GatewayRequest, charges: Mapping[str, float]) -> None:
        """Write a request over what was written of its number, and add to the balances of its type."""
        with self._database.writing() as connection:
            connection.execute(delete(gateway_requests).where(gateway_requests.c.number == request.number))
            connection.execute(insert(gateway_requests).values(_row(request)))
            if charges:
                _charge(connection, request.type.value, charges)

    def request(self, number: int) -> GatewayRequest | None:
        """One request."""
        with self._database.reading() as connection:
            row = connection.execute(select(gateway_requests).where(gateway_requests.c.number == number)).first()
            return None if row is None else _request(row)

    def requests(self, before: int | None = None, limit: int = 100, uid: int | None = None) -> Sequence[GatewayRequest]:
        """Requests, newest first: those with a number below `before`, of one user or of all."""
        query = select(gateway_requests).order_by(gateway_requests.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(gateway_requests.c.number < before)
        if uid is not None:
            query = query.where(gateway_requests.c.uid == uid)
        return self._found(query)

    def unsettled(self) -> Sequence[GatewayRequest]:
        """Requests of which it is not known what became of them, oldest first."""
        return self._in_states(UNSETTLED)

    def placed(self) -> Sequence[GatewayRequest]:
        """Requests whose VMs are in a zone, oldest first."""
        return self._in_states(frozenset({RequestState.PLACED}))

    def tokens(self) -> Mapping[str, int]:
        """The number of each request on record by its token."""
        query = select(gateway_requests.c.token, gateway_requests.c.number)
        with self._database.reading() as connection:
            return {row.token: row.number for row in connection.execute(query)}

    def opened_since(self, from_s: int) -> Sequence[GatewayRequest]:
        """Requests that were opened after an instant, and the first of all; oldest first."""
        first = select(func.min(gateway_requests.c.number)).scalar_subquery()
        wanted = or_(gateway_requests.c.opened_at_s > from_s, gateway_requests.c.number == first)
        return self._found(select(gateway_requests).where(wanted).order_by(gateway_requests.c.number))

    def balances(self, request_type: str) -> Mapping[str, float]:
        """How far each zone is ahead of its share of requests of a type."""
        with self._database.reading() as connection:
            return _balances(connection, request_type)

    def measures(self) -> Mapping[str, ZoneMeasure]:
        """The last measure of each zone."""
        query = select(gateway_documents).where(gateway_documents.c.kind == MEASURE).order_by(gateway_documents.c.zone)
        with self._database.reading() as connection:
            return {row.zone: _decoded(row, ZoneMeasure) for row in connection.execute(query)}

    def record_measure(self, zone: str, measure: ZoneMeasure) -> None:
        """In place of the zone's former one."""
        self._keep(MEASURE, zone, measure)

    def allocation(self) -> Allocation | None:
        """The shares in force."""
        query = select(gateway_documents).where(gateway_documents.c.kind == ALLOCATION)
        with self._database.reading() as connection:
            row = connection.execute(query).first()
            return None if row is None else _decoded(row, Allocation)

    def record_allocation(self, allocation: Allocation) -> None:
        """From now on these shares are in force."""
        self._keep(ALLOCATION, _OF_NO_ZONE, allocation)

    def prune(self, before_s: int) -> int:
        """Forget requests of which nothing was left before an instant, but for the newest of them; how many.

        That one shows how old the ledger is, and where there is none after it, that its number was used.
        """
        over = gateway_requests.c.ended_at_s < before_s
        with self._database.writing() as connection:
            newest = connection.execute(select(func.max(gateway_requests.c.number)).where(over)).scalar()
            forgotten = delete(gateway_requests).where(over, gateway_requests.c.number != newest)
            return connection.execute(forgotten).rowcount

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def _in_states(self, states: frozenset[RequestState]) -> Sequence[GatewayRequest]:
        words = [state.value for state in states]
        query = select(gateway_requests).where(gateway_requests.c.state.in_(words))
        return self._found(query.order_by(gateway_requests.c.number))

    def _found(self, query: Select[Any]) -> Sequence[GatewayRequest]:
        with self._database.reading() as connection:
            return tuple(map(_request, connection.execute(query)))

    def _keep(self, kind: str, zone: str, value: msgspec.Struct) -> None:
        same = (gateway_documents.c.kind == kind, gateway_documents.c.zone == zone)
        with self._database.writing() as connection:
            connection.execute(delete(gateway_documents).where(*same))
            document = msgspec.json.encode(value).decode()
            connection.execute(insert(gateway_documents).values(kind=kind, zone=zone, document=document))


def _balances(connection: Connection, request_type: str) -> dict[str, float]:
    query = select(gateway_balances.c.zone, gateway_balances.c.ahead).where(gateway_balances.c.type == request_type)
    return {row.zone: row.ahead for row in connection.execute(query)}


def _charge(connection: Connection, request_type: str, charges: Mapping[str, float]) -> None:
    known = _balances(connection, request_type)
    of_type = gateway_balances.c.type == request_type
    connection.execute(delete(gateway_balances).where(of_type, gateway_balances.c.zone.in_(list(charges))))
    rows = [
        {"type": request_type, "zone": zone, "ahead": round(known.get(zone, 0.0) + charge, BALANCE_DIGITS)}
        for zone, charge in charges.items()
    ]
    connection.execute(insert(gateway_balances), rows)


def _row(request: GatewayRequest) -> dict[str, Any]:
    return {
        "number": request.number,
        "token": request.token,
        "uid": request.uid,
        "state": request.state.value,
        "opened_at_s": request.opened_at_s,
        "ended_at_s": request.ended_at_s,
        "document": msgspec.json.encode(request).decode(),
    }


def _request(row: Row[Any]) -> GatewayRequest:
    try:
        return msgspec.json.decode(row.document, type=GatewayRequest)
    except (msgspec.DecodeError, UnicodeError) as error:
        of = f"request {row.number}"
        raise UnreadableRow(gateway_requests, of, "document", row.document, f"a request ({error})") from None


def _decoded(row: Row[Any], kind: type[T]) -> T:
    try:
        return msgspec.json.decode(row.document, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        of = f"{row.kind} {row.zone}".rstrip()
        raise UnreadableRow(gateway_documents, of, "document", row.document, f"a {row.kind} ({error})") from None
