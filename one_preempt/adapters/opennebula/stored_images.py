"""The images of all datastores, for whoever copies them to hosts: read afresh, on a connection of its own."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from lxml.etree import _Element

from one_preempt.adapters.opennebula.infrastructure_reader import read_datastore_pool
from one_preempt.adapters.opennebula.oned_errors import OnedError
from one_preempt.adapters.opennebula.snapshot_assembly import IMAGE_POOL
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter
from one_preempt.adapters.opennebula.untold_pools import UntoldPools
from one_preempt.adapters.opennebula.xml_document import (
    UnreadableDocument,
    amount,
    first_texts_of,
    parse_document,
    read_objects,
    whole_number,
)
from one_preempt.core.model.host import HostState
from one_preempt.core.model.infrastructure import Datastore
from one_preempt.core.model.stored_image import StoredImage
from one_preempt.ports import CloudUnavailable

_ALL: tuple[Parameter, ...] = (-2, -1, -1)
_TEMPLATE = "TEMPLATE/"
# A host that does not answer to oned need not be asked for what it holds.
_ANSWERING = frozenset({HostState.MONITORED, HostState.MONITORING_MONITORED, HostState.DISABLED})


class StoredImages:
    """Asked from several threads, a call at a time. Every method raises `CloudUnavailable`.

    Images are copied rarely, and their files are what oned says now: nothing is kept from question to question.
    """

    def __init__(self, transport: OnedTransport) -> None:
        self._transport = transport
        self._lock = Lock()
        self._untold = UntoldPools(transport)

    def all(self) -> Mapping[int, StoredImage]:
        """All images, by id; those that cannot be read are not among them."""
        datastore_pool, image_pool = self._document("one.datastorepool.info"), self._image_pool()
        try:
            datastores = read_datastore_pool(datastore_pool, [])
            images = read_objects(image_pool, "IMAGE_POOL", "IMAGE", lambda one: _image(one, datastores), [])
        except UnreadableDocument as error:
            raise CloudUnavailable(f"the pools of datastores and images: {error}") from None
        return {image.id: image for image in images}

    def of(self, image_id: int) -> StoredImage | None:
        """One image; None where oned has none of that id, or none that can be read."""
        return self.all().get(image_id)

    def answering_hosts(self) -> Mapping[int, str]:
        """The names of the hosts that are monitored, by id."""
        return {host_id: name for host_id, (name, state) in self._hosts().items() if state in _ANSWERING}

    def host_names(self) -> Mapping[int, str]:
        """The names of all hosts, by id."""
        return {host_id: name for host_id, (name, _state) in self._hosts().items()}

    def _hosts(self) -> Mapping[int, tuple[str, int]]:
        try:
            pool = parse_document(self._document("one.hostpool.info"), [], "the host pool")
        except UnreadableDocument as error:
            raise CloudUnavailable(f"one.hostpool.info: {error}") from None
        told = [(host.findtext("ID", ""), host.findtext("STATE", ""), host.findtext("NAME", "")) for host in pool]
        return {int(id): (name, int(state)) for id, state, name in told if id.isdecimal() and state.isdecimal()}

    def _image_pool(self) -> bytes:
        """What its users wrote into one image keeps the others from nobody."""
        try:
            with self._lock:
                return self._untold.document(IMAGE_POOL, _ALL, tuple)
        except OnedError as error:
            raise CloudUnavailable(f"one.{IMAGE_POOL} was refused: {error}") from error

    def _document(self, method: str, *parameters: Parameter) -> bytes:
        try:
            with self._lock:
                return self._transport.document(method, *parameters)
        except OnedError as error:
            raise CloudUnavailable(f"{method} was refused: {error}") from error


def _image(element: _Element, datastores: Mapping[int, Datastore]) -> StoredImage:
    """One IMAGE element. `KeyError` or `ValueError` where it lacks what every one has, or where its owner has smuggled
    in another place for its file."""
    texts = first_texts_of(element)
    if len(element.findall("SOURCE")) != 1:
        raise ValueError("it has more than one SOURCE")
    datastore_id = whole_number(texts["DATASTORE_ID"])
    datastore = datastores.get(datastore_id)
    attributes = {} if datastore is None else datastore.attributes
    return StoredImage(
        id=amount(texts["ID"]),
        name=texts["NAME"],
        source=texts["SOURCE"],
        size_mib=amount(texts["SIZE"]),
        # Before 7.0 oned did not tell when an image was changed.
        modified_at_s=whole_number(texts.get("MODTIME") or texts["REGTIME"]),
        persistent=texts["PERSISTENT"] != "0",
        state=whole_number(texts["STATE"]),
        datastore_id=datastore_id,
        base_path=attributes.get("BASE_PATH", ("",))[0],
        tm_mad="" if datastore is None else datastore.tm_mad,
        datastore={
            path.removeprefix(_TEMPLATE): texts[0] for path, texts in attributes.items() if path.startswith(_TEMPLATE)
        },
    )
