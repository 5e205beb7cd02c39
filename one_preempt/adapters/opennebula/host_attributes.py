"""The template attributes of hosts by their names, decrypted by oned: where power control finds controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock

from lxml.etree import _Element

from one_preempt.adapters.opennebula.oned_errors import OnedError
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, parse_document
from one_preempt.ports import Clock, CloudUnavailable

_DECRYPTED = True
_ABOUT_POWER = "POWER_"
KEPT_S = 300

Attributes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Pool:
    """The hosts as their pool lists them, where encrypted values stay so, read at `read_at_s`."""

    read_at_s: int
    ids: Mapping[str, int]
    switched: Mapping[str, Attributes]


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
        """What the template of the host of that name says about power. Raises `CloudUnavailable`."""
        with self._lock:
            pool = self._current_pool()
            if host not in pool.ids or not any(map(_is_about_power, pool.switched.get(host, {}))):
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

    def of_switched(self) -> Mapping[str, Attributes]:
        """By name, the attributes of each host that is handed over or whose template says anything about power.

        Encrypted values stay so. Raises `CloudUnavailable`.
        """
        with self._lock:
            return self._current_pool().switched

    def _current_pool(self) -> _Pool:
        """To be called with the lock."""
        now_s = self._clock.now_s()
        if self._pool is not None and 0 <= now_s - self._pool.read_at_s < KEPT_S:
            return self._pool
        try:
            self._pool = self._read_pool(now_s)
        except (CloudUnavailable, OnedError, UnreadableDocument) as error:
            if self._pool is None:
                raise CloudUnavailable(str(error)) from error
        return self._pool

    def _read_pool(self, now_s: int) -> _Pool:
        document = parse_document(self._transport.document("one.hostpool.info"), [], "the host pool")
        ids, switched = {}, {}
        for element in document.iterfind("HOST"):
            name, host_id, attributes = element.findtext("NAME", ""), element.findtext("ID", ""), _template_of(element)
            if not host_id.isdecimal():
                continue
            ids[name] = int(host_id)
            if any(map(_is_about_power, attributes)) or self._is_handed_over(name, element.findtext("CLUSTER", "")):
                switched[name] = attributes
        return _Pool(now_s, ids, switched)


def _is_about_power(name: str) -> bool:
    return name.startswith(_ABOUT_POWER)


def _template_of(element: _Element) -> Attributes:
    template = element.find("TEMPLATE")
    return {} if template is None else {str(part.tag): part.text or "" for part in template if not len(part)}
