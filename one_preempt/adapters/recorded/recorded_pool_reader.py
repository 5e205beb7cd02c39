"""A recording, or a folder of oned's raw answers, in place of a live cloud."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from one_preempt.adapters.opennebula import snapshot_assembly as pools
from one_preempt.adapters.opennebula.xml_document import UnreadableDocument, whole_number_or
from one_preempt.adapters.recorded.recording import Recording, RecordingError, read_recording
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.virtual_machine import VirtualMachine

_DOCUMENTS = (
    pools.VM_POOL, pools.SHORT_VM_POOL, pools.HOST_POOL, pools.HOST_MONITORING, pools.CLUSTER_POOL,
    pools.DATASTORE_POOL, pools.NETWORK_POOL, pools.VM_GROUP_POOL, pools.ACL, pools.USER_POOL, pools.GROUP_POOL,
    pools.RAFT_STATUS, pools.VERSION, pools.CONFIGURATION,
)  # fmt: skip


class RecordedPoolReader:
    """Implements `ports.PoolReader` over a file made by `write_recording`, or over a folder.

    The folder holds one file a call, named after it: ``vmpool.infoextended.xml``, ``system.version.txt``.
    Only the hosts and the VMs must be there. Its instant is the newest stamp found inside, so that the
    same folder always gives the same plan. Raises `RecordingError` when made.
    """

    def __init__(self, path: Path) -> None:
        recording = _read_folder(path) if path.is_dir() else read_recording(path)
        try:
            snapshot = pools.assemble_snapshot(recording.documents, recording.observed_at_s or 0)
        except UnreadableDocument as error:
            raise RecordingError(f"{path} cannot be read as pools of oned: {error}") from None
        self._snapshot = (
            snapshot if recording.observed_at_s else replace(snapshot, observed_at_s=newest_stamp(snapshot))
        )

    @property
    def observed_at_s(self) -> int:
        """When the cloud was seen."""
        return self._snapshot.observed_at_s

    def read(self) -> PoolSnapshot:
        """The recorded pools, every time the same."""
        return self._snapshot

    def read_raft_state(self) -> RaftState:
        """The state in which the front-end was recorded."""
        return self._snapshot.raft_state

    def read_vm(self, vm_id: int) -> VirtualMachine | None:
        """The VM as recorded."""
        return self._snapshot.vms.get(vm_id)


def newest_stamp(snapshot: PoolSnapshot) -> int:
    """The newest instant that oned wrote anywhere into the VMs and hosts, 0 where there is none."""
    return max(_stamps(snapshot), default=0)


def _stamps(snapshot: PoolSnapshot) -> Iterator[int]:
    for vm in snapshot.vms.values():
        yield vm.submitted_at_s
        yield vm.ended_at_s
        for stay in vm.history:
            yield from (stay.start_at_s, stay.end_at_s, stay.running_start_at_s, stay.running_end_at_s)
            yield from (stay.prolog_end_at_s, stay.epilog_end_at_s)
    for host in snapshot.hosts.values():
        yield from (whole_number_or(text, 0) for text in host.attributes.get("MONITORING/TIMESTAMP", ()))


def _read_folder(path: Path) -> Recording:
    documents: dict[str, bytes] = {}
    for name in _DOCUMENTS:
        file = path / f"{name}.{'txt' if name == pools.VERSION else 'xml'}"
        try:
            if file.is_file():
                documents[name] = file.read_bytes()
        except OSError as error:
            raise RecordingError(f"cannot read {file}: {error.strerror or error}") from None
    return Recording(None, documents)
