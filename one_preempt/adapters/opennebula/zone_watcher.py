"""One zone as the gateway's administrator sees it, and where the federation says that zones are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lxml.etree import _Element
from msgspec import Struct

from one_preempt.adapters.opennebula.accounting_reader import read_accounting
from one_preempt.adapters.opennebula.credentials import CredentialsError, checked_endpoint
from one_preempt.adapters.opennebula.host_reader import read_host_pool
from one_preempt.adapters.opennebula.oned_errors import AuthenticationError, OnedError
from one_preempt.adapters.opennebula.owner_template import SUBMISSION
from one_preempt.adapters.opennebula.pool_pieces import ids_named
from one_preempt.adapters.opennebula.snapshot_assembly import USER_POOL, VM_POOL, zone_id_in
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter
from one_preempt.adapters.opennebula.trusted_pools import is_not_sent
from one_preempt.adapters.opennebula.untold_pools import UntoldPools
from one_preempt.adapters.opennebula.virtual_machine_reader import read_vm_pool
from one_preempt.adapters.opennebula.xml_document import (
    MOST_NAMED,
    UnreadableDocument,
    amount,
    first_texts_of,
    read_objects,
)
from one_preempt.core.gateway.streams import HostRoom
from one_preempt.core.model.host import Host, HostState
from one_preempt.gateway_ports import AnotherZone, SeenZone
from one_preempt.ports import CloudUnavailable

ALL, FROM_FIRST, TO_LAST, NOT_DONE, UNTIL_NOW = -2, -1, -1, -1, -1
MHZ_PER_GHZ = 1000.0
KIB_PER_GIB = 1 << 20
CENTI = 100
ENABLED = "0"


class FederationZone(Struct, frozen=True):
    """A zone as every oned of its federation knows it; `endpoint` is '' where none can be used."""

    id: int
    name: str
    endpoint: str
    is_enabled: bool


class OpenNebulaZone:
    """A `ZoneWatcher` over one connection; its credentials must see all VMs and hosts, and the configuration.

    `name` is the zone's in the federation.
    """

    def __init__(self, transport: OnedTransport, name: str) -> None:
        self._transport = transport
        self._name = name
        self._untold = UntoldPools(transport)
        self.endpoint = transport.endpoint
        self._mistaken: AnotherZone | None = None

    def version(self) -> str:
        """Which OpenNebula is there. Raises `AnotherZone`."""
        self._demand_right()
        return self._document("one.system.version").decode(errors="replace")

    def seen(self, from_s: int) -> SeenZone:
        """Hosts, and what ran since an instant. Raises `AnotherZone`."""
        problems: list[str] = []
        try:
            hosts = read_host_pool(self._document("one.hostpool.info"), b"", {}, problems)
            own_id = zone_id_in(self._document("one.system.config"))
            zones = zones_of_federation(self._transport)
            is_disabled = self._is_disabled(own_id, zones)
            accounting = self._accounting(from_s, problems)
            # After the accounting: what ended in between is seen as living once more, not as ended too early.
            living = ids_named(self._vms(), "VM")
            runs = read_accounting(accounting, living, problems)
        except UnreadableDocument as error:
            raise CloudUnavailable(f"{self.endpoint}: {error}") from None
        if is_disabled:
            problems.append(f"it is disabled, and takes no VMs: onezone enable {own_id}, at its own endpoint")
        rooms = tuple(_room(host) for host in hosts.values() if host.accepts_vms and not is_disabled)
        offline = sum(host.state is HostState.OFFLINE for host in hosts.values())
        return SeenZone(rooms, runs, tuple(problems), is_disabled, offline)

    def _is_disabled(self, own_id: int, zones: Sequence[FederationZone]) -> bool:
        """Whether nothing can be created in the zone, by what its own oned knows of the federation.

        Where that oned knows no zone of the name that we have for it, it is none of the federation, and may be any.
        """
        own = next((zone for zone in zones if zone.id == own_id), None)
        meant = next((zone for zone in zones if zone.name == self._name), None)
        self._mistaken = None
        if meant is not None and meant.id != own_id:
            name = "a zone without a name" if own is None else f"zone {own.name}"
            self._mistaken = AnotherZone(
                f"{self.endpoint} is {name} ({own_id}), not {self._name} ({meant.id}): correct ENDPOINT by onezone "
                f"update {meant.id}, or the endpoint in gateway.zones, and restart the gateway"
            )
        self._demand_right()
        return own is not None and not own.is_enabled

    def _demand_right(self) -> None:
        if self._mistaken is not None:
            raise self._mistaken

    def vms_with(self, tokens: Collection[str]) -> Mapping[str, Sequence[int]]:
        """The VMs that are not DONE and bear one of these tokens, by token; ids ascend. Raises `AnotherZone`."""
        self._demand_right()
        try:
            vms = read_vm_pool(self._vms(), [])
        except UnreadableDocument as error:
            raise CloudUnavailable(f"{self.endpoint}: {error}") from None
        found: dict[str, list[int]] = {}
        for vm in vms.values():
            token = vm.user_template.get(SUBMISSION, ("",))[0]
            if isinstance(token, str) and token in tokens:
                found.setdefault(token, []).append(vm.id)
        return found

    def _accounting(self, from_s: int, problems: list[str]) -> bytes:
        """The zone's accounting; what oned cannot send of it costs its own user his part, as `problems` tell."""
        method, told, untold = "one.vmpool.accounting", list[bytes](), list[str]()
        try:
            return self._transport.document(method, ALL, from_s, UNTIL_NOW)
        except OnedError as error:
            if not is_not_sent(error):
                raise _unavailable(self._transport, method, error) from None
        for uid in sorted(ids_named(self._pool(USER_POOL), "USER")):
            try:
                told.append(_inside(self._transport.document(method, uid, from_s, UNTIL_NOW)))
            except OnedError as error:
                if not is_not_sent(error):
                    raise _unavailable(self._transport, method, error) from None
                untold.append(str(uid))
        problems.append(
            "oned cannot send its accounting as a whole, because a VM has a character beyond the first 65,536 (an "
            f"emoji?): it is read user by user, without user {', '.join(untold[:MOST_NAMED]) or '?'}"
        )
        return b"<HISTORY_RECORDS>" + b"".join(told) + b"</HISTORY_RECORDS>"

    def _vms(self) -> bytes:
        return self._pool(VM_POOL, ALL, FROM_FIRST, TO_LAST, NOT_DONE)

    def _pool(self, name: str, *parameters: Parameter) -> bytes:
        """A pool in which what a user writes hides nothing of others."""
        try:
            return self._untold.document(name, parameters, self._owners)
        except OnedError as error:
            raise _unavailable(self._transport, f"one.{name}", error) from None

    def _owners(self) -> frozenset[int]:
        """The users of whom VMs are."""
        return frozenset(vm.uid for vm in read_vm_pool(self._vms(), []).values())

    def _document(self, method: str, *parameters: Parameter) -> bytes:
        return _asked(self._transport, method, *parameters)


def _inside(records: bytes) -> bytes:
    """The records of an accounting without what is around them."""
    return records.strip().removeprefix(b"<HISTORY_RECORDS>").removesuffix(b"</HISTORY_RECORDS>")


def zones_of_federation(transport: OnedTransport) -> Sequence[FederationZone]:
    """The zones that are known where the transport goes. Raises `CloudUnavailable`."""
    document = _asked(transport, "one.zonepool.info")
    try:
        return read_objects(document, "ZONE_POOL", "ZONE", _zone, [])
    except UnreadableDocument as error:
        raise CloudUnavailable(f"{transport.endpoint}: {error}") from None


def endpoints_of_zones(transport: OnedTransport) -> Mapping[str, str]:
    """By the name of each zone of the federation where its oned is; zones that do not say it are left out.

    Raises `CloudUnavailable`.
    """
    return {zone.name: zone.endpoint for zone in zones_of_federation(transport) if zone.endpoint}


def _asked(transport: OnedTransport, method: str, *parameters: Parameter) -> bytes:
    try:
        return transport.document(method, *parameters)
    except OnedError as error:
        raise _unavailable(transport, method, error) from None


def _unavailable(transport: OnedTransport, method: str, error: OnedError) -> CloudUnavailable:
    if isinstance(error, AuthenticationError):
        return CloudUnavailable(
            f"{transport.endpoint} does not know the gateway's user: {error.text}; check auth_file in gateway.zones"
        )
    return CloudUnavailable(f"{method} at {transport.endpoint}: {error}")


def _zone(element: _Element) -> FederationZone:
    texts = first_texts_of(element)
    endpoint = element.findtext("TEMPLATE/ENDPOINT") or ""
    return FederationZone(
        id=amount(texts["ID"]),
        name=texts["NAME"],
        endpoint=endpoint if _is_usable(endpoint) else "",
        is_enabled=texts.get("STATE", ENABLED) == ENABLED,
    )


def _is_usable(endpoint: str) -> bool:
    try:
        checked_endpoint(endpoint, "the zone")
    except CredentialsError:
        return False
    return True


def _room(host: Host) -> HostRoom:
    return HostRoom(
        cores=max(0, host.max_cpu_centi) / CENTI,
        memory_gib=max(0, host.max_memory_kib) / KIB_PER_GIB,
        speed_ghz=_speed_ghz(host.attributes.get("TEMPLATE/CPUSPEED", ("",))[0]),
    )


def _speed_ghz(text: str) -> float | None:
    """What the monitoring of hosts writes, in MHz; None where it is nothing that can be meant."""
    try:
        speed_ghz = float(text) / MHZ_PER_GHZ
    except ValueError:
        return None
    return speed_ghz if 0.01 <= speed_ghz <= 100 else None
