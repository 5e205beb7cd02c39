"""A cloud described in YAML: what there is, and the calls that brought its VMs to where they are.

Numbers that oned gives out itself (ids) follow the order of the lists, as if an administrator had created the objects
one after the other: clusters, datastores, users and groups from 100 (users from 2), all else from 0. Unknown keys are
refused by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from one_preempt.configuration.strict_yaml import load_yaml_with_aliases
from one_preempt.simulation.described_file import read_described

Scalar = str | int | float
# Names become XML elements in the emulator's answers.
AttributeName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
VectorEntry = dict[AttributeName, Scalar]
TemplateEntry = dict[AttributeName, Scalar | VectorEntry | list[Scalar | VectorEntry]]
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Number = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Figure = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
# -1 and -2 are oned's words for "the default" and "unlimited".
Limit = Annotated[float, msgspec.Meta(ge=-2, le=1e15)]
Instant = Annotated[int, msgspec.Meta(ge=0, le=2**33)]
Version = Annotated[str, msgspec.Meta(pattern=r"^[6-9]\.[0-9]+\.[0-9]+\Z")]


class GroupEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A group; `quota` holds limits by oned's names (CPU, MEMORY, VMS, RUNNING_VMS, ...)."""

    name: str
    quota: dict[str, Limit] = {}


class UserEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A user; the password is the name unless given."""

    name: str
    group: str = "users"
    password: str | None = None
    quota: dict[str, Limit] = {}


class ClusterEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A cluster besides the default one."""

    name: str
    template: TemplateEntry = {}


class NumaEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How many equal NUMA nodes the machine has, and what is in each; huge pages as {size in KiB: pages}."""

    nodes: Number
    cores_per_node: Number
    memory_mib_per_node: Amount
    threads_per_core: Number = 1
    hugepages: dict[Number, Amount] = {}


class HostEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A machine; `count` makes as many, the name then has braces for the number, ``node{:02}``. `cpu` in CPUs.

    With `devices` it has the PCI devices of the description; `template_of_7` is what only 7.x adds. `status` is
    enabled, disabled or offline.
    """

    name: str
    cpu: Figure
    memory_mib: Amount
    count: Amount = 1
    cluster: str = "default"
    disk_mib: Amount = 102_400
    numa: NumaEntry | None = None
    devices: bool = False
    template: TemplateEntry = {}
    template_of_7: TemplateEntry = {}
    status: str = "enabled"


class DatastoreEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A datastore; `type` is image, system or file. `tm_mad_of_7` and `template_of_7` are what 7.x has otherwise
    or beside. `id` is for those of a fresh installation, 0 to 2. `base_path` is its folder; by default below oned's."""

    name: str
    type: str
    id: Amount | None = None
    ds_mad: str = "fs"
    tm_mad: str = "ssh"
    tm_mad_of_7: str | None = None
    clusters: tuple[str, ...] = ("default",)
    total_mib: Amount = 0
    used_mib: Amount = 0
    base_path: str = ""
    template: TemplateEntry = {}
    template_of_7: TemplateEntry = {}


class ImageEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An operating system image; everybody may use it where it is `public`."""

    name: str
    datastore: str
    public: bool = False
    size_mib: Amount = 1024
    source: str = ""
    path: str = ""
    format: str = "raw"
    template: TemplateEntry = {}


class NetworkEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A network with one address range; everybody may use it where it is `public`."""

    name: str
    public: bool = False
    clusters: tuple[str, ...] = ("default",)
    bridge: str = "br0"
    vn_mad: str = "bridge"
    first_ip: str = "192.168.150.10"
    size: Amount = 200


class RoleEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A role of a VM group; `host_affined` and `host_anti_affined` are host ids with commas between."""

    name: str
    policy: str = ""
    host_affined: str = ""
    host_anti_affined: str = ""


class VmGroupEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A VM group; everybody may put VMs into it where it is `public`."""

    name: str
    roles: list[RoleEntry]
    public: bool = False
    template: TemplateEntry = {}


class VmTemplateEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A VM template."""

    name: str
    template: TemplateEntry


class VmEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A VM and its story: the calls made on it, one after the other, each once the one before is done.

    The words of `story`: ``deploy HOST ...`` (the first host where it fits), ``migrate HOST``, ``live-migrate HOST``,
    ``lock LEVEL``, ``unlock``, ``chown USER``, ``fail OPERATION`` (the next such driver operation fails), or an action
    of one.vm.action.
    `based_on` names a VM template whose attributes `template` completes or replaces. `count` makes as many, the name
    then has braces for the number.
    """

    name: str
    count: Amount = 1
    owner: str = "oneadmin"
    based_on: str = ""
    template: TemplateEntry = {}
    hold: bool = False
    story: list[str] = []


class Description(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole cloud.

    `starts_at_s` is the time of the first call, in seconds since the epoch; the caller's choice where it is left out.
    `durations` and `drivers` hold what differs from the simulated cloud's own figures; with `instant` nothing takes
    time. `devices` holds, by version, what the monitoring of that version finds in every machine that has devices.
    ACL rules are written as oned shows them: ``@100 HOST/* MANAGE #0``.
    """

    version: Version = "7.4.0"
    starts_at_s: Instant | None = None
    hypervisor: str = "kvm"
    instant: bool = False
    durations: dict[str, Figure] = {}
    drivers: dict[str, Number] = {}
    groups: list[GroupEntry] = []
    users: list[UserEntry] = []
    acls: list[str] = []
    clusters: list[ClusterEntry] = []
    devices: dict[str, list[VectorEntry]] = {}
    hosts: list[HostEntry] = []
    datastores: list[DatastoreEntry] = []
    images: list[ImageEntry] = []
    networks: list[NetworkEntry] = []
    vm_groups: list[VmGroupEntry] = []
    vm_templates: list[VmTemplateEntry] = []
    vms: list[VmEntry] = []


def read_description(path: Path) -> Description:
    """The description in a file. Raises `OnePreemptError` that names the file, the place and what is wrong."""
    return read_described(path, Description, "the description of a cloud", load_yaml_with_aliases)
