"""What is read: pools as a caller sees them, newest first as oned writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from one_preempt.simulation.simulated_cloud.authorization import ObjectKind, Right, Subject
from one_preempt.simulation.simulated_cloud.cloud_state import (
    CloudState,
    datastore_subject,
    found,
    vm_subject,
)
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import (
    Caller,
    SimAcl,
    SimCluster,
    SimDatastore,
    SimGroup,
    SimHistory,
    SimImage,
    SimNetwork,
    SimOwned,
    SimUser,
    SimVm,
    SimVmGroup,
    SimVmTemplate,
)
from one_preempt.simulation.simulated_cloud.states import VmState

_MINE, _ALL, _MINE_AND_GROUPS, _PRIMARY_GROUP = -3, -2, -1, -4
_ANY_STATE, _NOT_DONE = -2, -1


_Object = TypeVar("_Object", bound=SimOwned)
_Numbered = TypeVar("_Numbered", SimUser, SimGroup, SimAcl, SimCluster)


class PoolCalls(CloudState):
    """one.*pool.info with filters and pages: a range of ids, or from an offset as many as a negative end says."""

    def vm_pool(
        self, caller: Caller, filter_flag: int = _ALL, start: int = -1, end: int = -1, state: int = _NOT_DONE
    ) -> list[SimVm]:
        """VMs in `state` (-1 all but DONE, -2 all)."""
        if not _ANY_STATE <= state <= VmState.CLONING_FAILURE:
            wrong = f"Incorrect state filter {state}" if self.is_series_7 else "Incorrect filter_flag, state"
            raise OnedError(ErrorCode.XML_RPC_API, wrong)
        vms = [vm for vm in self.vms.values() if state < 0 or vm.state == state]
        if state == _NOT_DONE:
            vms = [vm for vm in vms if vm.state != VmState.DONE]
        return self._visible(caller, ObjectKind.VM, vms, filter_flag, start, end)

    def accounting(
        self, caller: Caller, filter_flag: int = _ALL, start_s: int = -1, end_s: int = -1
    ) -> list[tuple[SimVm, SimHistory]]:
        """Stays on hosts of which a part lies between two instants (-1: none), DONE VMs' too, by VM and their order."""
        return [
            (vm, record)
            for vm in reversed(self._visible(caller, ObjectKind.VM, self.vms.values(), filter_flag, -1, -1))
            for record in vm.history
            if (start_s == -1 or record.etime_s == 0 or record.etime_s > start_s)
            and (end_s == -1 or record.stime_s < end_s)
        ]

    def vm_set(self, caller: Caller, vm_ids: str) -> list[SimVm]:
        """The VMs named as "1,4,7-9"; ids that name nothing, or nothing to be seen, are left out."""
        wanted: set[int] = set()
        for part in vm_ids.replace(" ", "").split(","):
            first, _, last = part.partition("-")
            if first.isdigit() and (not last or last.isdigit()):
                wanted.update(vm_id for vm_id in self.vms if int(first) <= vm_id <= int(last or first))
        return self._visible(caller, ObjectKind.VM, [self.vms[vm_id] for vm_id in wanted], _ALL, -1, -1)

    def image_info(self, caller: Caller, image_id: int) -> SimImage:
        """One image, for who may use it."""
        return self._one(caller, ObjectKind.IMAGE, found(self.images, image_id, "image"))

    def image_pool(self, caller: Caller, filter_flag: int, start: int, end: int) -> list[SimImage]:
        """Images."""
        return self._visible(caller, ObjectKind.IMAGE, self.images.values(), filter_flag, start, end)

    def network_pool(self, caller: Caller, filter_flag: int, start: int, end: int) -> list[SimNetwork]:
        """Virtual networks."""
        return self._visible(caller, ObjectKind.NET, self.networks.values(), filter_flag, start, end)

    def network_info(self, caller: Caller, network_id: int) -> SimNetwork:
        """One virtual network, for who may use it."""
        return self._one(caller, ObjectKind.NET, found(self.networks, network_id, "virtual network"))

    def vm_group_info(self, caller: Caller, group_id: int) -> SimVmGroup:
        """One VM group, for who may use it."""
        return self._one(caller, ObjectKind.VMGROUP, found(self.vm_groups, group_id, "VM group"))

    def vm_group_pool(self, caller: Caller, filter_flag: int, start: int, end: int) -> list[SimVmGroup]:
        """VM groups."""
        return self._visible(caller, ObjectKind.VMGROUP, self.vm_groups.values(), filter_flag, start, end)

    def template_pool(self, caller: Caller, filter_flag: int, start: int, end: int) -> list[SimVmTemplate]:
        """VM templates."""
        return self._visible(caller, ObjectKind.TEMPLATE, self.vm_templates.values(), filter_flag, start, end)

    def datastore_pool(self, caller: Caller) -> list[SimDatastore]:
        """Datastores that the caller may use."""
        seen = [
            datastore
            for datastore in self.datastores.values()
            if self.access.allows(caller, Right.USE, datastore_subject(datastore))
        ]
        return sorted(seen, key=lambda datastore: -datastore.id)

    def cluster_info(self, caller: Caller, cluster_id: int) -> SimCluster:
        """One cluster, for who may use it."""
        cluster = found(self.clusters, cluster_id, "cluster")
        self.access.demand(caller, (Right.USE, Subject(ObjectKind.CLUSTER, cluster_id)))
        return cluster

    def cluster_pool(self, caller: Caller) -> list[SimCluster]:
        """Clusters that the caller may use."""
        return self._usable(caller, ObjectKind.CLUSTER, self.clusters.values())

    def user_info(self, caller: Caller, uid: int) -> SimUser:
        """One user (-1 = the caller)."""
        user = self.user(caller.uid if uid == -1 else uid)
        if user.id != caller.uid:
            self.access.demand(caller, (Right.USE, Subject(ObjectKind.USER, user.id, user.id, user.gid)))
        return user

    def user_pool(self, caller: Caller) -> list[SimUser]:
        """All users for administrators, the caller alone for others."""
        seen = [user for user in self.users.values() if caller.is_admin or user.id == caller.uid]
        return sorted(seen, key=lambda user: -user.id)

    def group_info(self, caller: Caller, gid: int) -> SimGroup:
        """One group (-1 = the caller's)."""
        group = found(self.groups, caller.gid if gid == -1 else gid, "group")
        if group.id not in caller.group_ids:
            self.access.demand(caller, (Right.USE, Subject(ObjectKind.GROUP, group.id)))
        return group

    def group_pool(self, caller: Caller) -> list[SimGroup]:
        """All groups for administrators, their own for others."""
        seen = [group for group in self.groups.values() if caller.is_admin or group.id in caller.group_ids]
        return sorted(seen, key=lambda group: -group.id)

    def acl_pool(self, caller: Caller) -> list[SimAcl]:
        """All rules in oned's order: by the number of the user, then by id."""
        self.access.demand(caller, (Right.MANAGE, Subject(ObjectKind.ACL)))
        return sorted(self.acls.values(), key=lambda rule: (rule.user, rule.id))

    def _one(self, caller: Caller, kind: ObjectKind, item: _Object) -> _Object:
        self.access.demand(caller, (Right.USE, _subject(kind, item)))
        return item

    def _usable(self, caller: Caller, kind: ObjectKind, objects: Iterable[_Numbered]) -> list[_Numbered]:
        seen = [item for item in objects if self.access.allows(caller, Right.USE, Subject(kind, item.id))]
        return sorted(seen, key=lambda item: -item.id)

    def _visible(
        self, caller: Caller, kind: ObjectKind, objects: Iterable[_Object], filter_flag: int, start: int, end: int
    ) -> list[_Object]:
        if filter_flag < _PRIMARY_GROUP:
            raise OnedError(ErrorCode.XML_RPC_API, "Incorrect filter_flag")
        seen = [
            item
            for item in objects
            if _passes(caller, item, filter_flag)
            and (item.uid == caller.uid or self.access.allows(caller, Right.USE, _subject(kind, item)))
        ]
        seen.sort(key=lambda item: -item.id)
        if start >= 0 and end < -1:
            return seen[start : start - end]
        return [item for item in seen if (start < 0 or item.id >= start) and (end < 0 or item.id <= end)]


def _passes(caller: Caller, item: SimOwned, filter_flag: int) -> bool:
    if filter_flag == _ALL:
        return True
    if filter_flag == _MINE:
        return item.uid == caller.uid
    if filter_flag == _PRIMARY_GROUP:
        return item.gid == caller.gid
    if filter_flag == _MINE_AND_GROUPS:
        return item.uid == caller.uid or item.gid in caller.group_ids
    return item.uid == filter_flag


def _subject(kind: ObjectKind, item: SimOwned) -> Subject:
    if isinstance(item, SimVm):
        return vm_subject(item)
    clusters = tuple(item.cluster_ids) if isinstance(item, SimNetwork) else ()
    return Subject(kind, item.id, item.uid, item.gid, item.permissions, clusters)
