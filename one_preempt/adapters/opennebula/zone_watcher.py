"""One zone as the gateway's administrator sees it, and where the federation says that zones are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from lxml.etree import _Element

from one_preempt.adapters.opennebula.accounting_reader import read_accounting
from one_preempt.adapters.opennebula.credentials import CredentialsError, checked_endpoint
from one_preempt.adapters.opennebula.host_reader import read_host_pool
from one_preempt.adapters.opennebula.oned_errors import AuthenticationError, OnedError
from one_preempt.adapters.opennebula.owner_template import SUBMISSION
from one_preempt.adapters.opennebula.pool_pieces import ids_named
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter
from one_preempt.adapters.opennebula.virtual_machine_reader import read_vm_pool
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, first_texts_of, read_objects
from one_preempt.core.gateway.streams import HostRoom
from one_preempt.core.model.host import Host
from one_preempt.gateway_ports import SeenZone
from one_preempt.ports import CloudUnavailable

ALL, FROM_FIRST, TO_LAST, NOT_DONE, UNTIL_NOW = -2, -1, -1, -1, -1
MHZ_PER_GHZ = 1000.0
KIB_PER_GIB = 1 << 20
CENTI = 100


class OpenNebulaZone:
    """A `ZoneWatcher` over one connection; its credentials must see all VMs and hosts."""

    def __init__(self, transport: OnedTransport) -> None:
        self._transport = transport
        self.endpoint = transport.endpoint

    def version(self) -> str:
        """Which OpenNebula is there."""
        return self._document("one.system.version").decode(errors="replace")

    def seen(self, from_s: int) -> SeenZone:
        """Hosts, and what ran since an instant."""
        problems: list[str] = []
        try:
            hosts = read_host_pool(self._document("one.hostpool.info"), b"", {}, problems)
            accounting = self._document("one.vmpool.accounting", ALL, from_s, UNTIL_NOW)
            # After the accounting: what ended in between is seen as living once more, not as ended too early.
            living = ids_named(self._document("one.vmpool.info", ALL, FROM_FIRST, TO_LAST, NOT_DONE), "VM")
            runs = read_accounting(accounting, living, problems)
        except UnreadableDocument as error:
            raise CloudUnavailable(f"{self.endpoint}: {error}") from None
        rooms = tuple(_room(host) for host in hosts.values() if host.accepts_vms)
        return SeenZone(rooms, runs, tuple(problems))

    def vms_with(self, tokens: Collection[str]) -> Mapping[str, Sequence[int]]:
        """The VMs that are not DONE and bear one of these tokens, by token; ids ascend."""
        document = self._document("one.vmpool.infoextended", ALL, FROM_FIRST, TO_LAST, NOT_DONE)
        try:
            vms = read_vm_pool(document, [])
        except UnreadableDocument as error:
            raise CloudUnavailable(f"{self.endpoint}: {error}") from None
        found: dict[str, list[int]] = {}
        for vm in vms.values():
            token = vm.user_template.get(SUBMISSION, ("",))[0]
            if isinstance(token, str) and token in tokens:
                found.setdefault(token, []).append(vm.id)
        return found

    def _document(self, method: str, *parameters: Parameter) -> bytes:
        return _asked(self._transport, method, *parameters)


def endpoints_of_zones(transport: OnedTransport) -> Mapping[str, str]:
    """By the name of each zone of the federation where its oned is; zones that do not say it are left out.

    Raises `CloudUnavailable`.
    """
    document = _asked(transport, "one.zonepool.info")
    try:
        zones = read_objects(document, "ZONE_POOL", "ZONE", _zone, [])
    except UnreadableDocument as error:
        raise CloudUnavailable(f"{transport.endpoint}: {error}") from None
    return {name: endpoint for name, endpoint in zones if _is_usable(endpoint)}


def _asked(transport: OnedTransport, method: str, *parameters: Parameter) -> bytes:
    try:
        return transport.document(method, *parameters)
    except AuthenticationError as error:
        raise CloudUnavailable(
            f"{transport.endpoint} does not know the gateway's user: {error.text}; check auth_file in gateway.zones"
        ) from None
    except OnedError as error:
        raise CloudUnavailable(f"{method} at {transport.endpoint}: {error}") from None


def _zone(element: _Element) -> tuple[str, str]:
    return first_texts_of(element)["NAME"], element.findtext("TEMPLATE/ENDPOINT") or ""


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
