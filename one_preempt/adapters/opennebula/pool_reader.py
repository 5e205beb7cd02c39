"""The live cloud as a snapshot: every pool asked once, in an order that errs on the safe side."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from lxml.etree import _Element
from msgspec.structs import replace

from one_preempt.adapters.opennebula import snapshot_assembly as pools
from one_preempt.adapters.opennebula.migration_sources import MigrationSources
from one_preempt.adapters.opennebula.oned_errors import (
    AuthenticationError,
    AuthorizationError,
    NoExistsError,
    OnedError,
    ReplicationError,
)
from one_preempt.adapters.opennebula.transport import OnedTransport, Parameter
from one_preempt.adapters.opennebula.trusted_pools import is_not_sent
from one_preempt.adapters.opennebula.untold_pools import UntoldPools
from one_preempt.adapters.opennebula.virtual_machine_reader import read_virtual_machine
from one_preempt.adapters.opennebula.xml_document import (
    UNREADABLE_OBJECT,
    UnreadableDocument,
    parse_document,
    whole_number_or,
)
from one_preempt.core.model.access import ONEADMIN_UID, Directory
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.virtual_machine import VirtualMachine
from one_preempt.ports import Clock, CloudUnavailable, VmNotTold

UNREADABLE = "UNREADABLE"
ZONE_DISABLED = "zone disabled"
ALL, FROM_FIRST, TO_LAST, NOT_DONE, LAST_RECORD = -2, -1, -1, -1, 0
OURSELVES = -1

# VMs before hosts: what is deployed in between is then charged to a host, never taken for free room.
CALLS: tuple[tuple[str, tuple[Parameter, ...]], ...] = (
    (pools.RAFT_STATUS, ()),
    (pools.VERSION, ()),
    (pools.CONFIGURATION, ()),
    (pools.VM_POOL, (ALL, FROM_FIRST, TO_LAST, NOT_DONE)),
    (pools.HOST_POOL, ()),
    (pools.HOST_MONITORING, (LAST_RECORD,)),
    (pools.CLUSTER_POOL, ()),
    (pools.DATASTORE_POOL, ()),
    (pools.NETWORK_POOL, (ALL, FROM_FIRST, TO_LAST)),
    (pools.VM_GROUP_POOL, (ALL, FROM_FIRST, TO_LAST)),
    (pools.ACL, ()),
    (pools.USER_POOL, ()),
    (pools.GROUP_POOL, ()),
)


class OpenNebulaPoolReader:
    """Implements `ports.PoolReader`."""

    def __init__(self, transport: OnedTransport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._sources = MigrationSources(self.read_vm)
        self._untold = UntoldPools(transport)

    def read(self) -> PoolSnapshot:
        """All pools. Raises `CloudUnavailable`."""
        observed_at_s = self._clock.now_s()
        documents = read_documents(self._transport, self._untold)
        try:
            snapshot = pools.assemble_snapshot(documents, observed_at_s)
        except UnreadableDocument as error:
            raise CloudUnavailable(f"{self._transport.endpoint}: {error}") from None
        named = replace(snapshot, own_uid=uid_of(self._transport.user, snapshot.directory))
        return self._sources.with_sources(named)

    def read_raft_state(self) -> RaftState:
        """Whether this front-end is the one to act. Raises `CloudUnavailable`."""
        name = pools.RAFT_STATUS
        try:
            return pools.raft_state(self._transport.document(f"one.{name}"))
        except OnedError as error:
            raise refused(f"one.{name}", error) from None
        except UnreadableDocument as error:
            raise CloudUnavailable(f"one.{name} at {self._transport.endpoint}: {error}") from None

    def read_vm(self, vm_id: int) -> VirtualMachine | None:
        """One VM with all its history.

        Raises `CloudUnavailable` where oned does not answer, does not know us, or finds its front-ends at odds,
        `VmNotTold` where only this VM is not told: what its owner writes into it, even what stands in this answer
        alone, must not pass for a dead oned.
        """
        try:
            vm = read_virtual_machine(self._vm_element(vm_id))
            if vm.id != vm_id:
                raise ValueError(f"it is the document of VM {vm.id}")
        except NoExistsError:
            return None
        except (AuthenticationError, ReplicationError) as error:
            raise refused("one.vm.info", error) from None
        except OnedError as error:
            raise VmNotTold(f"one.vm.info was refused: {error}", error.code_name) from None
        except (*UNREADABLE_OBJECT, UnreadableDocument) as error:
            why = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
            raise VmNotTold(f"VM {vm_id} cannot be read: {why}", UNREADABLE) from None
        return vm

    def _vm_element(self, vm_id: int) -> _Element:
        return parse_document(self._transport.document("one.vm.info", vm_id, False), [], f"VM {vm_id}")


def read_documents(transport: OnedTransport, untold: UntoldPools | None = None) -> dict[str, bytes]:
    """The answers to all `CALLS` under the names of the calls. Raises `CloudUnavailable`.

    `untold` remembers what oned could not send; whoever reads but once has none.
    """
    untold = UntoldPools(transport) if untold is None else untold
    documents: dict[str, bytes] = {}
    for name, parameters in CALLS:
        try:
            documents[name] = untold.document(name, parameters, partial(_holders, transport, name, documents))
        except OnedError as error:
            raise refused(f"one.{name}", error) from None
    return documents


def _holders(transport: OnedTransport, name: str, documents: Mapping[str, bytes]) -> frozenset[int]:
    """The users, or groups, of whom VMs are, and we ourselves: nothing can be decided without these."""
    ourselves = parse_document(transport.document("one.user.info", OURSELVES), [], "our user")
    mark = "GID" if name == pools.GROUP_POOL else "ID"
    found = [ourselves.findtext(mark)]
    with suppress(UnreadableDocument):
        vms = parse_document(documents[pools.VM_POOL], [], pools.VM_POOL)
        found += [vm.findtext("GID" if name == pools.GROUP_POOL else "UID") for vm in vms.iterfind("VM")]
    return frozenset(whole_number_or(text, ONEADMIN_UID) for text in found if text)


def uid_of(user: str, directory: Directory) -> int:
    """The id of the user `user`; oneadmin's where nobody of that name can be seen."""
    return next((uid for uid, known in directory.users.items() if known.name == user), ONEADMIN_UID)


def refused(method: str, error: OnedError) -> CloudUnavailable:
    """A refusal of a reading as the port has it: without the pools there is nothing to decide."""
    return CloudUnavailable(f"{method} was refused: {error}; {_mend(error)}")


def _mend(error: OnedError) -> str:
    if isinstance(error, AuthenticationError):
        return "check ONE_AUTH"
    if is_not_sent(error):
        return "an emoji, or another character beyond the first 65,536, is in one of these: replace it"
    if error.text.endswith(ZONE_DISABLED):
        return "nothing is scheduled until onezone enable"
    return "is the user in the group oneadmin?" if isinstance(error, AuthorizationError) else "look at oned's log"
