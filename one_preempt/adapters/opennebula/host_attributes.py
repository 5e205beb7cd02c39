"""The template attributes of hosts by their names, decrypted by oned: where power control finds controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from lxml.etree import _Element
from msgspec import Struct

from one_preempt.adapters.opennebula.oned_errors import OnedError
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, parse_document
from one_preempt.core.model.power import ListedHost
from one_preempt.ports import Clock, CloudUnavailable

_DECRYPTED = True
_ABOUT_POWER = "POWER_"
KEPT_S = 300

Attributes = Mapping[str, str]


class _Pool(Struct, frozen=True):
    """The hosts as their pool lists them, where encrypted values stay so, read at `read_at_s`."""

    read_at_s: int
    ids: Mapping[str, int]
    hosts: Mapping[str, ListedHost]


class HostAttributes:
    """Asked from several threads; the connection is its own.

    The pool of hosts is read once in `KEPT_S`, and a host by itself only where its template says anything about power.
    What was read before counts as long as oned does not answer.
    """

    def __init__(
        self, transport: OnedTransport, clock: Clock, is_handed_over: Callable[[str, str], bool] = lambda *_names: False
    ) -> None:
        """`is_handed_over` tells it of a host by its name and its cluster's."""
        self._transport = transport
        self._clock = clock
        self._is_handed_over = is_handed_over
        self._lock = Lock()
        self._pool: _Pool | None = None
        self._known: dict[str, Attributes] = {}

    def of(self, host: str) -> Attributes:
        """What the template of the host of that name says about power. Raises `CloudUnavailable`, of a host that oned
        does not list as well: nobody knows where its controller is.
        """
        with self._lock:
            pool = self._pool_with(host)
            if not pool.hosts[host].attributes:
                return {}
            try:
                document = self._transport.document("one.host.info", pool.ids[host], _DECRYPTED)
                self._known[host] = _template_of(parse_document(document, [], f"host {host}"))
            except (CloudUnavailable, UnreadableDocument) as error:
                if host not in self._known:
                    raise CloudUnavailable(str(error)) from error
            except OnedError as error:
                self._pool = None  # deleted perhaps, and its name given to another one
                raise CloudUnavailable(f"one.host.info of host {host}: {error}") from error
            return self._known[host]

    def hosts_with(self, host: str) -> Mapping[str, ListedHost]:
        """By name all hosts, of which the one of that name is one. Raises `CloudUnavailable`, as `of` does."""
        with self._lock:
            return self._pool_with(host).hosts

    def _pool_with(self, host: str) -> _Pool:
        """To be called with the lock. Who is not in it may have been created or renamed since: it is read again."""
        pool = self._current_pool()
        if host not in pool.ids and pool.read_at_s != self._clock.now_s():
            self._pool = pool = self._read_pool()
        if host not in pool.ids:
            raise CloudUnavailable(f"one.hostpool.info lists no host named {host}")
        return pool

    def _current_pool(self) -> _Pool:
        """To be called with the lock."""
        if self._pool is not None and 0 <= self._clock.now_s() - self._pool.read_at_s < KEPT_S:
            return self._pool
        try:
            self._pool = self._read_pool()
        except CloudUnavailable:
            if self._pool is None:
                raise
        return self._pool

    def _read_pool(self) -> _Pool:
        """Raises `CloudUnavailable`."""
        now_s = self._clock.now_s()
        try:
            document = parse_document(self._transport.document("one.hostpool.info"), [], "the host pool")
        except (OnedError, UnreadableDocument) as error:
            raise CloudUnavailable(str(error)) from error
        ids, hosts = {}, {}
        for element in document.iterfind("HOST"):
            name, host_id = element.findtext("NAME", ""), element.findtext("ID", "")
            if not host_id.isdecimal():
                continue
            about_power = {key: text for key, text in _template_of(element).items() if key.startswith(_ABOUT_POWER)}
            ids[name] = int(host_id)
            hosts[name] = ListedHost(self._is_handed_over(name, element.findtext("CLUSTER", "")), about_power)
        return _Pool(now_s, ids, hosts)


def _template_of(element: _Element) -> Attributes:
    template = element.find("TEMPLATE")
    return {} if template is None else {str(part.tag): part.text or "" for part in template if not len(part)}
