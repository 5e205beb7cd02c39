"""A virtual machine as oned reports it: its states, and in which of them it holds capacity of a host."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field

from one_preempt.core.model.resources import Resources


class VmState(IntEnum):
    """VM/STATE."""

    INIT = 0
    PENDING = 1
    HOLD = 2
    ACTIVE = 3
    STOPPED = 4
    SUSPENDED = 5
    DONE = 6
    POWEROFF = 8
    UNDEPLOYED = 9
    CLONING = 10
    CLONING_FAILURE = 11


class LcmState(IntEnum):
    """VM/LCM_STATE, meaningful while ACTIVE, as in oned 7.4 (pyone's own table stops at 68)."""

    LCM_INIT = 0
    PROLOG = 1
    BOOT = 2
    RUNNING = 3
    MIGRATE = 4
    SAVE_STOP = 5
    SAVE_SUSPEND = 6
    SAVE_MIGRATE = 7
    PROLOG_MIGRATE = 8
    PROLOG_RESUME = 9
    EPILOG_STOP = 10
    EPILOG = 11
    SHUTDOWN = 12
    CLEANUP_RESUBMIT = 15
    UNKNOWN = 16
    HOTPLUG = 17
    SHUTDOWN_POWEROFF = 18
    BOOT_UNKNOWN = 19
    BOOT_POWEROFF = 20
    BOOT_SUSPENDED = 21
    BOOT_STOPPED = 22
    CLEANUP_DELETE = 23
    HOTPLUG_SNAPSHOT = 24
    HOTPLUG_NIC = 25
    HOTPLUG_SAVEAS = 26
    HOTPLUG_SAVEAS_POWEROFF = 27
    HOTPLUG_SAVEAS_SUSPENDED = 28
    SHUTDOWN_UNDEPLOY = 29
    EPILOG_UNDEPLOY = 30
    PROLOG_UNDEPLOY = 31
    BOOT_UNDEPLOY = 32
    HOTPLUG_PROLOG_POWEROFF = 33
    HOTPLUG_EPILOG_POWEROFF = 34
    BOOT_MIGRATE = 35
    BOOT_FAILURE = 36
    BOOT_MIGRATE_FAILURE = 37
    PROLOG_MIGRATE_FAILURE = 38
    PROLOG_FAILURE = 39
    EPILOG_FAILURE = 40
    EPILOG_STOP_FAILURE = 41
    EPILOG_UNDEPLOY_FAILURE = 42
    PROLOG_MIGRATE_POWEROFF = 43
    PROLOG_MIGRATE_POWEROFF_FAILURE = 44
    PROLOG_MIGRATE_SUSPEND = 45
    PROLOG_MIGRATE_SUSPEND_FAILURE = 46
    BOOT_UNDEPLOY_FAILURE = 47
    BOOT_STOPPED_FAILURE = 48
    PROLOG_RESUME_FAILURE = 49
    PROLOG_UNDEPLOY_FAILURE = 50
    DISK_SNAPSHOT_POWEROFF = 51
    DISK_SNAPSHOT_REVERT_POWEROFF = 52
    DISK_SNAPSHOT_DELETE_POWEROFF = 53
    DISK_SNAPSHOT_SUSPENDED = 54
    DISK_SNAPSHOT_REVERT_SUSPENDED = 55
    DISK_SNAPSHOT_DELETE_SUSPENDED = 56
    DISK_SNAPSHOT = 57
    DISK_SNAPSHOT_DELETE = 59
    PROLOG_MIGRATE_UNKNOWN = 60
    PROLOG_MIGRATE_UNKNOWN_FAILURE = 61
    DISK_RESIZE = 62
    DISK_RESIZE_POWEROFF = 63
    DISK_RESIZE_UNDEPLOYED = 64
    HOTPLUG_NIC_POWEROFF = 65
    HOTPLUG_RESIZE = 66
    HOTPLUG_SAVEAS_UNDEPLOYED = 67
    HOTPLUG_SAVEAS_STOPPED = 68
    BACKUP = 69
    BACKUP_POWEROFF = 70
    RESTORE = 71


class LockLevel(IntEnum):
    """LOCK/LOCKED: USE and MANAGE stop every action of ours, ADMIN only deploy and migrate."""

    NONE = 0
    USE = 1
    MANAGE = 2
    ADMIN = 3
    ALL = 4


# The lock on a VM that is suspended in place: its owner can neither resume it nor take the lock away (decision 0039).
PREEMPTION_LOCK = LockLevel.MANAGE


class HistoryAction(IntEnum):
    """HISTORY/ACTION, the values that matter to a scheduler; others stay plain numbers."""

    NONE = 0
    MIGRATE = 1
    LIVE_MIGRATE = 2
    UNDEPLOY = 5
    UNDEPLOY_HARD = 6
    STOP = 9
    SUSPEND = 10
    RESUME = 11
    POWEROFF = 19
    POWEROFF_HARD = 20
    TERMINATE = 27
    TERMINATE_HARD = 28
    DEPLOY = 30


# A template attribute is a text or a vector of texts; the same name may stand several times.
VectorAttribute = Mapping[str, str]
AttributeValue = str | VectorAttribute
Template = Mapping[str, tuple[AttributeValue, ...]]


class HistoryRecord(Struct, frozen=True):
    """One HISTORY element: a stay on a host. Times in seconds since the epoch, 0 = not yet.

    `action` is what was asked for last, by the user `action_uid`; -1 where nobody has asked for anything.
    """

    sequence: int
    host_id: int
    hostname: str
    cluster_id: int
    datastore_id: int
    action: int
    start_at_s: int
    end_at_s: int
    prolog_start_at_s: int
    prolog_end_at_s: int
    running_start_at_s: int
    running_end_at_s: int
    epilog_end_at_s: int
    tm_mad: str = ""
    action_uid: int = -1


class Disk(Struct, frozen=True):
    """One DISK; sizes in MiB. `clone` is None where the element is absent (volatile disks), `image_id` where it is
    made from no image; `image_size_mib` is the size of that image, 0 where it is not told."""

    id: int
    size_mib: int
    type: str
    datastore_id: int | None
    clone: bool | None
    clone_target: str
    ln_target: str
    tm_mad: str
    snapshot_total_mib: int
    image_id: int | None = None
    image_size_mib: int = 0


class Nic(Struct, frozen=True):
    """One NIC; `network_id` is None while a NIC with NETWORK_MODE=auto has not been given a network."""

    id: int
    network_id: int | None
    automatic: bool
    sched_requirements: str = ""
    sched_rank: str = ""


class PciRequest(Struct, frozen=True):
    """A requested PCI device; empty strings match anything. `address` is set once a device was assigned."""

    vendor: str = ""
    device: str = ""
    device_class: str = ""
    short_address: str = ""
    address: str = ""


class NumaNodeRequest(Struct, frozen=True):
    """One NUMA_NODE of the VM template: what the guest node needs, and where it was put."""

    node_id: int | None
    total_cpus: int
    memory_kib: int
    memory_node_id: int | None


class Topology(Struct, frozen=True):
    """TOPOLOGY of the VM template; `pin_policy` is NONE, CORE, THREAD, SHARED or NODE_AFFINITY's ''."""

    cores: int
    threads: int
    pin_policy: str
    hugepage_size_mib: int | None
    node_affinity: int | None


class ScheduledAction(Struct, frozen=True):
    """One SCHED_ACTION that oned itself will carry out."""

    action: str
    time: str


class VirtualMachine(Struct, frozen=True):
    """One VM of the pool.

    `user_template` is the owner's own (never trusted); CONTEXT, GRAPHICS and other secrets are not kept.
    `lcm_state` is an `LcmState`, or the plain number where oned names one that is not in the table.
    `source_host_id` is the host that it leaves where it is `MIGRATING` and that was told: `history` may lack it.
    `extended` is False when the document was the short body of one.vmpool.info, which lacks requirements.
    """

    id: int
    name: str
    uid: int
    gid: int
    uname: str
    gname: str
    state: VmState
    lcm_state: int
    resched: bool
    submitted_at_s: int
    ended_at_s: int
    cpu_centi: int
    memory_mib: int
    automatic_requirements: str = ""
    automatic_datastore_requirements: str = ""
    automatic_nic_requirements: str = ""
    sched_requirements: str = ""
    sched_datastore_requirements: str = ""
    sched_rank: str = ""
    sched_datastore_rank: str = ""
    user_priority: str = ""
    lock_level: LockLevel = LockLevel.NONE
    lock_owner_uid: int | None = None
    template_id: int | None = None
    service_id: str = ""
    virtual_router_id: int | None = None
    vm_group_id: int | None = None
    vm_group_role: str = ""
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()
    pci_requests: tuple[PciRequest, ...] = ()
    topology: Topology | None = None
    numa_nodes: tuple[NumaNodeRequest, ...] = ()
    scheduled_actions: tuple[ScheduledAction, ...] = ()
    history: tuple[HistoryRecord, ...] = ()
    source_host_id: int | None = None
    user_template: Template = field(default_factory=dict)
    extended: bool = True

    @property
    def resources(self) -> Resources:
        """What oned charges a host for this VM."""
        return Resources(self.cpu_centi, self.memory_mib)

    @property
    def last_history(self) -> HistoryRecord | None:
        """The current or, when the VM is on no host, the last stay."""
        return self.history[-1] if self.history else None

    def is_locked_by_scheduler(self, own_uid: int) -> bool:
        """It bears a lock as the scheduler sets it, whose user at oned is `own_uid`."""
        return self.lock_level is PREEMPTION_LOCK and self.lock_owner_uid == own_uid

    def is_set_aside(self, own_uid: int) -> bool:
        """At rest on its host and kept from being resumed: another VM may run in its room."""
        return self.state == VmState.SUSPENDED and self.is_locked_by_scheduler(own_uid)

    @property
    def is_suspended(self) -> bool:
        """SUSPENDED, or so and in the middle of what oned does to the disks of such a VM."""
        return self.state is VmState.SUSPENDED or (self.state is _ACTIVE and self.lcm_state in SUSPENDED_STATES)

    @property
    def is_at_rest(self) -> bool:
        """SUSPENDED or POWEROFF: its guest does not run, and oned goes on charging its host for it."""
        return self.state in _AT_REST_STATES

    @property
    def is_running(self) -> bool:
        """ACTIVE and RUNNING."""
        return self.state == VmState.ACTIVE and self.lcm_state == LcmState.RUNNING

    @property
    def holds_capacity(self) -> bool:
        """oned charges a host for it: SUSPENDED, POWEROFF, and every ACTIVE state but those of what is on no host."""
        return self.state in CAPACITY_HOLDING_STATES and self.lcm_state not in OFF_HOST_STATES

    @property
    def host_id(self) -> int | None:
        """The host that holds the VM's capacity, or None. STOPPED VMs still name their old host."""
        # As `holds_capacity`, which is not called: this is asked for each VM again and again.
        if not self.history or self.state not in CAPACITY_HOLDING_STATES or self.lcm_state in OFF_HOST_STATES:
            return None
        return self.history[-1].host_id

    @property
    def charged_host_ids(self) -> tuple[int, ...]:
        """All hosts that oned charges for it: two while it migrates, until the source is freed."""
        host_id = self.host_id
        if host_id is None:
            return ()
        if self.state is not _ACTIVE or self.lcm_state not in CHARGED_TWICE:
            return (host_id,)
        before = self.history[-2].host_id if len(self.history) > 1 else host_id
        source_id = before if self.source_host_id is None else self.source_host_id
        return (host_id,) if source_id == host_id else (source_id, host_id)

    @property
    def needed_host_ids(self) -> tuple[int, ...]:
        """All hosts that it cannot do without: those charged for it, and the one from which its disks are copied."""
        source_id, charged = self.source_host_id, self.charged_host_ids
        return charged if source_id is None or source_id in charged else (source_id, *charged)

    @property
    def may_be_deployed(self) -> bool:
        """oned accepts one.vm.deploy: PENDING, HOLD, STOPPED, UNDEPLOYED."""
        return self.state in DEPLOYABLE_STATES

    @property
    def is_pinned(self) -> bool:
        """Its vCPUs are pinned to host threads (CORE, THREAD or SHARED)."""
        return self.topology is not None and self.topology.pin_policy in ("CORE", "THREAD", "SHARED")

    @property
    def needs_hardware(self) -> bool:
        """It asks for PCI devices, or for cores of its own."""
        return bool(self.pci_requests) or self.topology is not None

    @property
    def needs_matching(self) -> bool:
        """It asks for more than can be counted: for hardware, or for a place by the rules of a VM group."""
        return self.needs_hardware or self.vm_group_id is not None

    @property
    def is_being_saved(self) -> bool:
        """Its memory is being written to its system datastore: it is stopped or suspended, by whosever hand."""
        return self.state is _ACTIVE and self.lcm_state in SAVING_STATES

    @property
    def state_name(self) -> str:
        """The state as a person names it: the LCM state while ACTIVE, else the state."""
        if self.state is not _ACTIVE:
            return _STATE_NAMES[self.state]
        return _LCM_STATE_NAMES.get(self.lcm_state) or f"LCM_STATE {self.lcm_state}"


CAPACITY_HOLDING_STATES = frozenset({VmState.ACTIVE, VmState.SUSPENDED, VmState.POWEROFF})
_AT_REST_STATES = frozenset({VmState.SUSPENDED, VmState.POWEROFF})
DEPLOYABLE_STATES = frozenset({VmState.PENDING, VmState.HOLD, VmState.STOPPED, VmState.UNDEPLOYED})
SAVING_STATES = frozenset({LcmState.SAVE_STOP, LcmState.SAVE_SUSPEND})
# A disk of a STOPPED or UNDEPLOYED VM is saved as an image or resized: ACTIVE to oned, and on no host.
OFF_HOST_STATES = frozenset(
    {LcmState.DISK_RESIZE_UNDEPLOYED, LcmState.HOTPLUG_SAVEAS_UNDEPLOYED, LcmState.HOTPLUG_SAVEAS_STOPPED}
)
SUSPENDED_STATES = frozenset({
    LcmState.HOTPLUG_SAVEAS_SUSPENDED, LcmState.DISK_SNAPSHOT_SUSPENDED, LcmState.DISK_SNAPSHOT_REVERT_SUSPENDED,
    LcmState.DISK_SNAPSHOT_DELETE_SUSPENDED, LcmState.PROLOG_MIGRATE_SUSPEND,
})  # fmt: skip
CHARGED_TWICE = frozenset({LcmState.MIGRATE, LcmState.SAVE_MIGRATE})
COPIED_FROM_SOURCE = frozenset({
    LcmState.PROLOG_MIGRATE, LcmState.PROLOG_MIGRATE_FAILURE,
    LcmState.PROLOG_MIGRATE_POWEROFF, LcmState.PROLOG_MIGRATE_POWEROFF_FAILURE,
    LcmState.PROLOG_MIGRATE_SUSPEND, LcmState.PROLOG_MIGRATE_SUSPEND_FAILURE,
    LcmState.PROLOG_MIGRATE_UNKNOWN, LcmState.PROLOG_MIGRATE_UNKNOWN_FAILURE,
})  # fmt: skip
MIGRATING = CHARGED_TWICE | COPIED_FROM_SOURCE
# An enumeration takes long to find a member, and a member ten times as long to tell its name.
_ACTIVE = VmState.ACTIVE
_STATE_NAMES = {state: state.name for state in VmState}
_LCM_STATE_NAMES = {int(state): state.name for state in LcmState}
FAILURE_STATES = frozenset(state for state in LcmState if state.name.endswith("_FAILURE"))
