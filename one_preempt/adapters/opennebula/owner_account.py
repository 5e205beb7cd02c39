"""What an ordinary user of the cloud can do with own VMs, with own credentials and rights: look, create, end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lxml.etree import _Element
from msgspec import Struct

from one_preempt.adapters.opennebula.infrastructure_reader import read_datastore_pool
from one_preempt.adapters.opennebula.oned_errors import AuthenticationError, NoExistsError, OnedError
from one_preempt.adapters.opennebula.owner_template import SUBMISSION, added_attributes, with_lease
from one_preempt.adapters.opennebula.snapshot_assembly import TEMPLATE_POOL, VM_POOL
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter
from one_preempt.adapters.opennebula.trusted_pools import is_not_sent
from one_preempt.adapters.opennebula.untold_pools import UntoldPools
from one_preempt.adapters.opennebula.virtual_machine_reader import read_virtual_machine, read_vm_pool
from one_preempt.adapters.opennebula.xml_document import (
    UNREADABLE_OBJECT,
    UnreadableDocument,
    amount,
    first_texts_of,
    parse_document,
    read_objects,
    whole_number_or,
)
from one_preempt.core.model.infrastructure import DatastoreType
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.errors import OnePreemptError
from one_preempt.ports import CloudUnavailable

MYSELF = -1
MINE, VISIBLE = -3, -2
FROM_FIRST, TO_LAST, NOT_DONE = -1, -1, -1
ON_HOLD = True
NOT_PERSISTENT = False
GREATEST_ID = (1 << 31) - 1  # what a call can carry
LONGEST_FILE = 1 << 20
_NO_TEMPLATES = "To add a LEASE to a VM template you need the right to create templates; without it, submit a --file"
_NOT_SENT = (
    "An emoji, or another character that oned stores and cannot send, is in it: replace that by onevm update, or "
    "terminate that VM"
)


_ILLEGAL = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML cannot carry


class Refused(OnePreemptError):
    """oned refused what its user asked for; the message is one sentence with oned's own words."""


class Source(Struct, frozen=True):
    """What VMs are made of: a VM template of the cloud by its id, or the text of a whole one."""

    template_id: int | None = None
    text: str = ""


class _Named(Struct, frozen=True):
    id: int
    uid: int
    name: str


class OwnerAccount:
    """One user at oned. Raises `CloudUnavailable` where no answer came, and `Refused`."""

    def __init__(self, transport: OnedTransport) -> None:
        self._transport = transport
        self._untold = UntoldPools(transport)
        self.endpoint = transport.endpoint

    def uid(self) -> int:
        """Who we are."""
        user = self._parsed(self._document("your user cannot be determined", "one.user.info", MYSELF))
        return amount(first_texts_of(user)["ID"])

    def vms(self, problems: list[str], whose: int = MINE) -> dict[int, VirtualMachine]:
        """VMs by ascending id, own ones, or all that are `VISIBLE`; what cannot be read is told in `problems`.

        What somebody wrote into one VM, an emoji or markup, hides none of the others.
        """
        try:
            document = self._untold.document(VM_POOL, (whose, FROM_FIRST, TO_LAST, NOT_DONE), tuple)
        except OnedError as error:
            raise self._refused("your VMs cannot be listed", error) from error
        try:
            return read_vm_pool(document, problems)
        except UnreadableDocument as error:
            raise CloudUnavailable(f"{self.endpoint}: {error}") from None

    def vm(self, vm_id: int) -> VirtualMachine | None:
        """One VM with its history, own or not; None where it does not exist."""
        try:
            document = self._document(f"VM {vm_id} cannot be shown", "one.vm.info", vm_id, False)
        except Refused as refused:
            if isinstance(refused.__cause__, NoExistsError):
                return None
            raise
        try:
            return read_virtual_machine(self._parsed(document))
        except UNREADABLE_OBJECT as error:
            raise CloudUnavailable(f"VM {vm_id} cannot be read: {error}") from None

    def template_called(self, wanted: str) -> int:
        """The id of the VM template with this id or name; an own one before those of others."""
        if wanted.isdecimal() and wanted.isascii():
            number = whole_number_or(wanted, GREATEST_ID + 1)
            if number > GREATEST_ID:
                raise OnePreemptError(f"no VM template has the id {wanted[:40]}; see: onetemplate list")
            return number
        try:
            # What others write into theirs is not to hide this one.
            document = self._untold.document(TEMPLATE_POOL, (VISIBLE, FROM_FIRST, TO_LAST), tuple)
        except OnedError as error:
            raise self._refused("VM templates cannot be listed", error) from error
        found = [
            one for one in read_objects(document, "VMTEMPLATE_POOL", "VMTEMPLATE", _named, []) if one.name == wanted
        ]
        if len(found) > 1:
            me = self.uid()
            found = [one for one in found if one.uid == me] or found
        if len(found) > 1:
            ids = ", ".join(str(one.id) for one in sorted(found, key=lambda one: one.id)[:10])
            raise OnePreemptError(f"several VM templates are called {wanted!r}: name one of them by its id, {ids}")
        if not found:
            raise OnePreemptError(f"no VM template that you may use is called {wanted!r}; see: onetemplate list")
        return found[0].id

    def may_use_a_system_datastore(self) -> bool:
        """Whether a VM of ours could run at all, as far as we are shown what it needs: hosts are hidden from us.

        Where a datastore cannot be read, that is not known, and taken for true.
        """
        problems: list[str] = []
        document = self._document("datastores cannot be listed", "one.datastorepool.info")
        try:
            found = read_datastore_pool(document, problems)
        except UnreadableDocument as error:
            raise CloudUnavailable(f"{self.endpoint}: {error}") from None
        return bool(problems) or any(store.type is DatastoreType.SYSTEM for store in found.values())

    def create(self, source: Source, name: str, lease: Mapping[str, str], marks: Mapping[str, str]) -> int:
        """One VM on HOLD with a LEASE attribute and marks; its id.

        `name` is for VMs made of a template, '' is oned's choice.
        """
        if source.template_id is not None:
            extra = added_attributes(lease, marks)
            return self._done(
                "it was refused", "one.template.instantiate", source.template_id, name, ON_HOLD, extra, NOT_PERSISTENT
            )
        text = with_lease(source.text, lease, marks)
        return self._done("it was refused", "one.vm.allocate", text, ON_HOLD)

    def submitted(self, submission: str, problems: list[str], whose: int = MINE) -> Sequence[int]:
        """The ids of VMs that bear the mark of a submission; `problems` tell of VMs that may bear it unseen."""
        vms = self.vms(problems, whose).values()
        return [vm.id for vm in vms if vm.user_template.get(SUBMISSION) == (submission,)]

    def terminate(self, vm_id: int, *, hard: bool) -> None:
        """End a VM: the guest is asked to shut down, or, where `hard`, stopped at once."""
        action = "terminate-hard" if hard else "terminate"
        self._done(f"VM {vm_id} cannot be terminated", "one.vm.action", action, vm_id)

    def _done(self, what: str, method: str, *parameters: Parameter) -> int:
        try:
            return amount(str(self._transport.call(method, *parameters).checked()))
        except OnedError as error:
            raise self._refused(what, error) from error
        except ValueError as error:
            raise CloudUnavailable(f"{method} at {self.endpoint}: the answer is not an id: {error}") from None

    def _document(self, what: str, method: str, *parameters: Parameter) -> bytes:
        try:
            return self._transport.document(method, *parameters)
        except OnedError as error:
            raise self._refused(what, error) from error

    def _refused(self, what: str, error: OnedError) -> Refused:
        if isinstance(error, AuthenticationError):
            told = error.text.rstrip(".")
            return Refused(f"{self.endpoint} does not know you: {told}; check ONE_AUTH or ~/.one/one_auth")
        hint = f". {_NO_TEMPLATES}" if "CREATE TEMPLATE" in error.text else ""
        if is_not_sent(error):
            hint = f". {_NOT_SENT}"
        return Refused(f"{what}: {error.text.rstrip('.')}{hint}")

    def _parsed(self, document: bytes) -> _Element:
        try:
            return parse_document(document, [], "the answer")
        except UnreadableDocument as error:
            raise CloudUnavailable(f"{self.endpoint}: {error}") from None


def _named(element: _Element) -> _Named:
    texts = first_texts_of(element)
    return _Named(amount(texts["ID"]), amount(texts["UID"]), texts["NAME"])


def text_of_file(path: Path) -> str:
    """The VM template in a file. Raises `OnePreemptError` where it holds none."""
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST_FILE + 1)
    except OSError as error:
        raise OnePreemptError(f"the VM template {path} cannot be read: {error.strerror}") from None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise OnePreemptError(f"the VM template {path} is not UTF-8 text") from None
    if len(content) > LONGEST_FILE or not text.strip() or _ILLEGAL.search(text):
        raise OnePreemptError(f"{path} holds no VM template: write one as for onevm create, of at most 1 MiB")
    return text
