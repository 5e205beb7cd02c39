"""The template attributes of hosts by their names, decrypted by oned: where power control finds controllers."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from one_preempt.adapters.opennebula.oned_errors import OnedError
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, parse_document
from one_preempt.ports import Clock, CloudUnavailable

_DECRYPTED = True
KEPT_S = 300


class HostAttributes:
    """Asked from several threads; the connection is its own. What is read is kept for a while, in memory alone."""

    def __init__(self, transport: OnedTransport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, tuple[int, Mapping[str, str]]] = {}

    def of(self, host: str) -> Mapping[str, str]:
        """What the template of the host of that name says; nothing where it cannot be read now."""
        with self._lock:
            now_s = self._clock.now_s()
            known = self._known.get(host)
            if known is not None and 0 <= now_s - known[0] < KEPT_S:
                return known[1]
            try:
                found = self._read(host)
            except (CloudUnavailable, OnedError, UnreadableDocument, ValueError):
                return {} if known is None else known[1]
            self._known[host] = (now_s, found)
            return found

    def _read(self, host: str) -> Mapping[str, str]:
        pool = parse_document(self._transport.document("one.hostpool.info"), [], "the host pool")
        ids = [element.findtext("ID") for element in pool.iterfind("HOST") if element.findtext("NAME") == host]
        if not ids or not ids[0]:
            return {}
        document = self._transport.document("one.host.info", int(ids[0]), _DECRYPTED)
        template = parse_document(document, [], f"host {host}").find("TEMPLATE")
        return {} if template is None else {str(part.tag): part.text or "" for part in template if not len(part)}
