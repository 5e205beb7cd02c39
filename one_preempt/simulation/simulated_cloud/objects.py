"""What the simulated cloud keeps: mutable records, one per element of oned's documents.

Field order follows element order, so that a front can render a record element by element. Attributes that oned
keeps as free templates stay dictionaries of lists in their own words (`TemplateDict`): oned writes them sorted by
name, repeated names in the order they were given. Times are whole seconds since the epoch, 0 = not yet; memory on
hosts is in KiB, CPU in hundredths, sizes of datastores in MiB, as in the documents.
"""

from __future__ import annotations

from msgspec import Struct, field

from one_preempt.simulation.simulated_cloud.states import HostState, LcmState, VmState

# A template attribute is a text, or a vector of named texts; the same name may stand several times.
Vector = dict[str, str]
Attribute = str | Vector
TemplateDict = dict[str, list[Attribute]]


class SimPermissions(Struct):
    """PERMISSIONS: one figure per holder and right, as oned's 600 for VMs of a user (umask 177)."""

    owner_u: bool = True
    owner_m: bool = True
    owner_a: bool = False
    group_u: bool = False
    group_m: bool = False
    group_a: bool = False
    other_u: bool = False
    other_m: bool = False
    other_a: bool = False


class SimOwned(Struct):
    """What begins the document of every object that has an owner."""

    id: int
    uid: int
    gid: int
    uname: str
    gname: str
    name: str
    permissions: SimPermissions


class SimLock(Struct):
    """LOCK: `level` is a `LockLevel`."""

    level: int
    owner_uid: int
    time_s: int
    request_id: int


class SimHistory(Struct):
    """HISTORY: one stay on a host. `plan_id` and `action_id` are written by 7.x only."""

    vm_id: int
    seq: int
    hostname: str
    host_id: int
    cluster_id: int
    stime_s: int
    etime_s: int = 0
    vm_mad: str = "kvm"
    tm_mad: str = "ssh"
    datastore_id: int = 0
    plan_id: int = -2
    action_id: int = -1
    pstime_s: int = 0
    petime_s: int = 0
    rstime_s: int = 0
    retime_s: int = 0
    estime_s: int = 0
    eetime_s: int = 0
    action: int = 0
    uid: int = -1
    gid: int = -1
    request_id: int = -1


class SimVm(SimOwned):
    """VM. `template` is TEMPLATE without what follows from the id (VMID, a UUID in OS) and without SCHED_ACTION; a
    SCHED_ACTION is a vector of `sched_actions`.

    `taken` is what it holds on a host: hundredths of a CPU and KiB of memory (not in the document).
    """

    last_poll_s: int = 0
    state: VmState = VmState.PENDING
    lcm_state: LcmState = LcmState.LCM_INIT
    prev_state: VmState = VmState.PENDING
    prev_lcm_state: LcmState = LcmState.LCM_INIT
    resched: bool = False
    stime_s: int = 0
    etime_s: int = 0
    deploy_id: str = ""
    lock: SimLock | None = None
    monitoring: Vector = field(default_factory=dict)
    template: TemplateDict = field(default_factory=dict)
    sched_actions: list[Vector] = field(default_factory=list)
    user_template: TemplateDict = field(default_factory=dict)
    history: list[SimHistory] = field(default_factory=list)
    taken: tuple[int, int] = (0, 0)


class SimCore(Struct):
    """NUMA_NODES/NODE/CORE: hardware thread -> the VMs pinned to it, one entry a virtual CPU; `reserved` threads are
    kept from VMs (ISOLCPUS)."""

    id: int
    cpus: dict[int, list[int]]
    dedicated: bool = False
    reserved: set[int] = field(default_factory=set)


class SimHugePages(Struct):
    """NUMA_NODES/NODE/HUGEPAGE: `size_kib` of one page, counts of pages."""

    size_kib: int
    pages: int
    usage: int = 0


class SimNumaNode(Struct):
    """NUMA_NODES/NODE; `pinned_kib` is the memory of each pinned VM (not in the document)."""

    node_id: int
    cores: list[SimCore]
    hugepages: list[SimHugePages]
    memory_total_kib: int
    memory_usage_kib: int = 0
    memory_distance: str = "0"
    pinned_kib: dict[int, int] = field(default_factory=dict)


class SimHostShare(Struct):
    """HOST_SHARE. `disks` holds DISK_USAGE, FREE_DISK, MAX_DISK and USED_DISK, `datastores` its DS vectors."""

    mem_usage: int = 0
    cpu_usage: int = 0
    total_mem: int = 0
    total_cpu: int = 0
    max_mem: int = 0
    max_cpu: int = 0
    running_vms: int = 0
    vms_thread: int = 1
    disks: Vector = field(default_factory=dict)
    datastores: list[Vector] = field(default_factory=list)
    pci_devices: list[Vector] = field(default_factory=list)
    numa_nodes: list[SimNumaNode] = field(default_factory=list)


class SimHostMonitoring(Struct):
    """HOST/MONITORING; all zero and empty until the host was monitored."""

    timestamp_s: int = 0
    capacity: Vector = field(default_factory=dict)
    system: Vector = field(default_factory=dict)


class SimHost(Struct):
    """HOST. `physical_*` is what the machine has: what the next monitoring will find."""

    id: int
    name: str
    state: HostState
    prev_state: HostState
    im_mad: str
    vm_mad: str
    cluster_id: int
    cluster: str
    physical_cpu: int
    physical_memory_kib: int
    share: SimHostShare = field(default_factory=SimHostShare)
    vm_ids: list[int] = field(default_factory=list)
    template: TemplateDict = field(default_factory=dict)
    monitoring: SimHostMonitoring = field(default_factory=SimHostMonitoring)
    alive: bool = True


class SimCluster(Struct):
    """CLUSTER."""

    id: int
    name: str
    host_ids: list[int] = field(default_factory=list)
    datastore_ids: list[int] = field(default_factory=list)
    network_ids: list[int] = field(default_factory=list)
    template: TemplateDict = field(default_factory=dict)


class SimDatastore(SimOwned):
    """DATASTORE; `type` is a `DatastoreType`, `state` 0 while enabled, 1 disabled."""

    ds_mad: str
    tm_mad: str
    base_path: str
    type: int
    disk_type: int = 0
    state: int = 0
    cluster_ids: list[int] = field(default_factory=list)
    total_mib: int = 0
    free_mib: int = 0
    used_mib: int = 0
    image_ids: list[int] = field(default_factory=list)
    template: TemplateDict = field(default_factory=dict)


class SimImage(SimOwned):
    """IMAGE: what VM disks are made from."""

    regtime_s: int
    datastore_id: int
    datastore: str
    size_mib: int
    type: int = 0
    disk_type: int = 0
    persistent: bool = False
    source: str = ""
    path: str = ""
    format: str = "raw"
    state: int = 1
    running_vms: int = 0
    vm_ids: list[int] = field(default_factory=list)
    template: TemplateDict = field(default_factory=dict)


class SimAddressRange(Struct):
    """AR: `leases` maps the offset of an address to the id of the VM that has it; the search for a free one begins at
    `next_index`. `leaked` are leases of deploys that failed half-way: no NIC names them, so nothing frees them."""

    vector: Vector
    size: int
    leases: dict[int, int] = field(default_factory=dict)
    next_index: int = 0
    leaked: set[int] = field(default_factory=set)


class SimNetwork(SimOwned):
    """VNET."""

    cluster_ids: list[int] = field(default_factory=list)
    bridge: str = ""
    bridge_type: str = "linux"
    state: int = 1
    vn_mad: str = "bridge"
    template: TemplateDict = field(default_factory=dict)
    address_ranges: list[SimAddressRange] = field(default_factory=list)

    @property
    def used_leases(self) -> int:
        """Addresses given out."""
        return sum(len(address_range.leases) for address_range in self.address_ranges)


class SimRole(Struct):
    """ROLE of a VM group; `vector` holds everything but ID, NAME and VMS (POLICY, HOST_AFFINED, ...)."""

    id: int
    name: str
    vector: Vector = field(default_factory=dict)
    vm_ids: list[int] = field(default_factory=list)


class SimVmGroup(SimOwned):
    """VM_GROUP; the group-level AFFINED and ANTI_AFFINED lists are in `template`."""

    roles: list[SimRole] = field(default_factory=list)
    template: TemplateDict = field(default_factory=dict)


class SimVmTemplate(SimOwned):
    """VMTEMPLATE."""

    regtime_s: int
    template: TemplateDict = field(default_factory=dict)


class SimVmQuota(Struct):
    """VM_QUOTA/VM: limits and use by oned's names (CPU, MEMORY, VMS, SYSTEM_DISK_SIZE, RUNNING_CPU, ...).

    Limits: -1 = the default of the cloud (none here), -2 = unlimited. CPU is in CPUs, MEMORY and disk in MiB; use
    keeps hundredths of a CPU so that it stays exact. `cluster_ids` is empty for the quota over the whole cloud; 7.4
    also knows quotas of some clusters, named by their ids with commas between.
    """

    limits: dict[str, float] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    cluster_ids: str = ""


class SimQuotas(Struct):
    """QUOTAS of a user or a group; the three others stay as vectors of the documents. No `vm` entry exists until
    the first VM, or until a limit was set."""

    datastore: list[Vector] = field(default_factory=list)
    network: list[Vector] = field(default_factory=list)
    vm: list[SimVmQuota] = field(default_factory=list)
    image: list[Vector] = field(default_factory=list)


class SimUser(Struct):
    """USER; `password` in clear text, the simulated cloud has no secrets."""

    id: int
    gid: int
    group_ids: list[int]
    gname: str
    name: str
    password: str
    auth_driver: str = "core"
    enabled: bool = True
    template: TemplateDict = field(default_factory=dict)
    quotas: SimQuotas = field(default_factory=SimQuotas)


class SimGroup(Struct):
    """GROUP."""

    id: int
    name: str
    template: TemplateDict = field(default_factory=dict)
    user_ids: list[int] = field(default_factory=list)
    admin_ids: list[int] = field(default_factory=list)
    quotas: SimQuotas = field(default_factory=SimQuotas)


class SimAcl(Struct):
    """ACL: the four numbers of a rule as oned packs them."""

    id: int
    user: int
    resource: int
    rights: int
    zone: int
    text: str


class SimZone(Struct, frozen=True):
    """ZONE: a zone as every zone of its federation knows it."""

    id: int
    name: str
    endpoint: str
    endpoint_grpc: str = ""
    is_enabled: bool = True


class Caller(Struct, frozen=True):
    """Who calls: as oned knows a user after authentication."""

    uid: int
    gid: int
    group_ids: tuple[int, ...]
    name: str = ""

    @property
    def is_admin(self) -> bool:
        """User 0 and everybody in group 0 pass every check."""
        return self.uid == 0 or self.gid == 0 or 0 in self.group_ids


ONEADMIN = Caller(0, 0, (0,), "oneadmin")
