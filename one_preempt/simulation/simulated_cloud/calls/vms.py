"""The calls that act on one VM: creation, attributes, owners and locks."""

from __future__ import annotations

from msgspec.structs import replace

from one_preempt.simulation.simulated_cloud import addressing
from one_preempt.simulation.simulated_cloud.authorization import ObjectKind, Right, Subject, refusal
from one_preempt.simulation.simulated_cloud.cloud_state import found, oned_call, vm_subject
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.life_cycle import LifeCycle
from one_preempt.simulation.simulated_cloud.objects import Caller, SimLock, SimVm, TemplateDict
from one_preempt.simulation.simulated_cloud.quotas import full_request
from one_preempt.simulation.simulated_cloud.restrictions import created_with, taken_over
from one_preempt.simulation.simulated_cloud.states import LockLevel, VmState
from one_preempt.simulation.simulated_cloud.templates import (
    TemplateSyntaxError,
    merged,
    parse_template,
    text_of,
    vectors_of,
)
from one_preempt.simulation.simulated_cloud.vm_building import build_vm, check_name, vm_group_named

_PERMISSION_BITS = (
    "owner_u", "owner_m", "owner_a", "group_u", "group_m", "group_a", "other_u", "other_m", "other_a",
)  # fmt: skip


class VmCalls(LifeCycle):
    """one.template.instantiate; one.vm.allocate, update, lock, unlock, chown, chmod, info."""

    _last_vm_id = -1

    @oned_call
    def vm_allocate(self, caller: Caller, template: str, hold: bool = False) -> int:
        """Create a VM, PENDING or on HOLD, and return its id.

        Raises INTERNAL for a template that cannot be read or used, AUTHORIZATION without the right to create, for
        restricted attributes, or where a quota of the user or the primary group would be exceeded.
        """
        request = parsed(template, ErrorCode.INTERNAL)
        if text_of(request, "NAME"):
            check_name(text_of(request, "NAME"))
        if not caller.is_admin and (name := created_with(request)):
            raise refusal(caller, f"VM Template includes a restricted attribute {name}")
        creation = Subject(ObjectKind.VM, uid=caller.uid, gid=caller.gid)
        self.access.demand(caller, (Right.CREATE, creation), *self.uses_of(request, caller.uid))
        return self._created(caller, request, hold)

    @oned_call
    def template_instantiate(
        self, caller: Caller, template_id: int, name: str, hold: bool, extra: str, _persistent: bool
    ) -> int:
        """Create a VM from a VM template, whose attributes those of `extra` replace, and return its id.

        Who adds attributes needs the right to create templates. Raises as `vm_allocate`, and NO_EXISTS.
        """
        pattern = found(self.vm_templates, template_id, "virtual machine template")
        addition = parsed(extra, ErrorCode.INTERNAL) if extra else {}
        if not caller.is_admin and (restricted := created_with(addition)):
            raise refusal(caller, f"VM Template includes a restricted attribute {restricted}")
        request = merged(pattern.template, addition)
        use = Subject(ObjectKind.TEMPLATE, pattern.id, pattern.uid, pattern.gid, pattern.permissions)
        demands = [(Right.USE, use), *self.uses_of(request, caller.uid)]
        if extra:
            demands.append((Right.CREATE, Subject(ObjectKind.TEMPLATE, uid=caller.uid, gid=caller.gid)))
        self.access.demand(caller, *demands)
        request["NAME"] = [name or f"{pattern.name}-{self._next_vm_id()}"]
        request["TEMPLATE_ID"] = [str(template_id)]
        return self._created(caller, request, hold)

    def _created(self, caller: Caller, request: TemplateDict, hold: bool) -> int:
        vm_id = self._next_vm_id()
        on_hold = hold or text_of(request, "SUBMIT_ON_HOLD").upper() == "YES"
        try:
            vm = build_vm(self, caller, vm_id, request, on_hold)
        except OnedError:
            self._forget_traces(vm_id)
            raise
        if objection := self.quota_books.objection(vm.uid, vm.gid, full_request(vm)):
            self._forget_traces(vm_id)
            raise refusal(caller, objection)
        self.quota_books.add(vm.uid, vm.gid, full_request(vm))
        self._enter(vm)
        return vm_id

    def _enter(self, vm: SimVm) -> None:
        """A new VM comes into the pool."""
        self.vms[vm.id] = vm
        self._last_vm_id = vm.id
        self.change_vm(vm, vm.state)

    def _next_vm_id(self) -> int:
        """One more than the highest; looked up where VMs came from elsewhere."""
        if self._last_vm_id < 0 or self._last_vm_id + 1 in self.vms:
            self._last_vm_id = max(self.vms, default=-1)
        return self._last_vm_id + 1

    def uses_of(self, request: TemplateDict, uid: int) -> list[tuple[Right, Subject]]:
        """USE of each image and network that the request names by id, and of its VM group."""
        wanted = []
        for attribute, key, kind, pool in (
            ("DISK", "IMAGE_ID", ObjectKind.IMAGE, self.images),
            ("NIC", "NETWORK_ID", ObjectKind.NET, self.networks),
        ):
            for vector in vectors_of(request, attribute):
                used = pool.get(int(vector[key])) if vector.get(key, "").isdigit() else None
                if used is not None:
                    wanted.append((Right.USE, Subject(kind, used.id, used.uid, used.gid, used.permissions)))
        for vector in vectors_of(request, "VMGROUP")[:1]:
            group = vm_group_named(self, vector, uid)
            if group is not None:
                wanted.append(
                    (Right.USE, Subject(ObjectKind.VMGROUP, group.id, group.uid, group.gid, group.permissions))
                )
        return wanted

    def _forget_traces(self, vm_id: int) -> None:
        """Give back what a VM that was not created had taken."""
        addressing.give_leases_back(self.networks, vm_id)
        for image in self.images.values():
            if vm_id in image.vm_ids:
                image.vm_ids.remove(vm_id)
                image.running_vms -= 1
        for role in (role for group in self.vm_groups.values() for role in group.roles):
            if vm_id in role.vm_ids:
                role.vm_ids.remove(vm_id)

    @oned_call
    def vm_update(self, caller: Caller, vm_id: int, template: str, append: int) -> int:
        """Replace (0) the user template, or append (1) to it: attributes named in the text replace their namesakes.

        Others than administrators can neither change nor lose restricted attributes.
        """
        vm = self.vm(vm_id)
        self.demand_vm(caller, Right.MANAGE, vm)
        if append not in (0, 1):
            raise OnedError(ErrorCode.XML_RPC_API, "Wrong update type")
        addition = parsed(template, ErrorCode.ACTION)
        if not caller.is_admin:
            taken_over(vm.user_template, addition, replace=append == 0)
        vm.user_template = merged(vm.user_template, addition) if append else addition
        return vm_id

    @oned_call
    def vm_lock(self, caller: Caller, vm_id: int, level: int, test: bool = False) -> int:
        """Lock: USE and MANAGE stop every change, ADMIN deploy and migrate; ALL is stored as USE."""
        vm = self.vm(vm_id)
        self.access.demand(caller, (Right.MANAGE, vm_subject(vm)), heed_locks=False)
        if level not in tuple(LockLevel):
            raise OnedError(ErrorCode.ACTION, "Wrong lock level specified")
        if vm.lock is not None and (test or (vm.lock.owner_uid != caller.uid and not caller.is_admin)):
            raise OnedError(ErrorCode.ACTION, "Error trying to lock the resource.")
        stored = LockLevel.USE if level == LockLevel.ALL else level
        vm.lock = SimLock(stored, caller.uid, self.now_s, self.request_id)
        return vm_id

    @oned_call
    def vm_unlock(self, caller: Caller, vm_id: int) -> int:
        """Take the lock away: its owner, or an administrator."""
        vm = self.vm(vm_id)
        self.access.demand(caller, (Right.MANAGE, vm_subject(vm)), heed_locks=False)
        if vm.lock is not None and vm.lock.owner_uid != caller.uid and not caller.is_admin:
            raise OnedError(ErrorCode.ACTION, "Cannot unlock: Lock is owned by another user")
        vm.lock = None
        return vm_id

    @oned_call
    def vm_chown(self, caller: Caller, vm_id: int, uid: int, gid: int) -> int:
        """Give the VM to another user and group (-1 = as it is); what it counts moves to their quotas."""
        user = self.user(uid) if uid > -1 else None
        group = self.group(gid) if gid > -1 else None
        vm = self.vm(vm_id)
        demands = []
        if user is not None and uid != vm.uid:
            demands.append((Right.MANAGE, Subject(ObjectKind.USER, uid, uid, user.gid)))
        if group is not None and gid != vm.gid and gid not in caller.group_ids:
            demands.append((Right.USE, Subject(ObjectKind.GROUP, gid)))
        self.demand_vm(caller, Right.MANAGE, vm, *demands)
        new_uid, new_gid = (uid if uid > -1 else vm.uid), (gid if gid > -1 else vm.gid)
        self._move_quota(caller, vm, new_uid, new_gid)
        vm.uid, vm.gid = new_uid, new_gid
        vm.uname = user.name if user is not None else vm.uname
        vm.gname = group.name if group is not None else vm.gname
        return vm_id

    def _move_quota(self, caller: Caller, vm: SimVm, new_uid: int, new_gid: int) -> None:
        request = {} if vm.state == VmState.DONE else full_request(vm)
        self.quota_books.add(vm.uid, vm.gid, request, -1)
        objection = self.quota_books.objection(new_uid, new_gid, request)
        if objection:
            self.quota_books.add(vm.uid, vm.gid, request)
            raise refusal(caller, objection)
        self.quota_books.add(new_uid, new_gid, request)

    @oned_call
    def vm_chmod(self, caller: Caller, vm_id: int, *bits: int) -> int:
        """Set the nine permission bits, owner, group, other by use, manage, admin; -1 leaves one as it is."""
        vm = self.vm(vm_id)
        touches_admin = any(bit != -1 for bit in bits[2::3])
        self.demand_vm(caller, Right.ADMIN if touches_admin else Right.MANAGE, vm)
        if not {-1, 0, 1}.issuperset(bits):
            raise OnedError(ErrorCode.XML_RPC_API, "New permission attributes are not -1, 0 or 1")
        given = {name: bool(bit) for name, bit in zip(_PERMISSION_BITS, bits, strict=True) if bit != -1}
        vm.permissions = replace(vm.permissions, **given)
        return vm_id

    def vm_info(self, caller: Caller, vm_id: int) -> SimVm:
        """The VM, for who may use it; a lock keeps nobody from looking."""
        vm = self.vm(vm_id)
        self.access.demand(caller, (Right.USE, vm_subject(vm)), heed_locks=False)
        return vm


def parsed(text: str, code: ErrorCode) -> TemplateDict:
    """The template, or the refusal with `code`."""
    try:
        return parse_template(text)
    except TemplateSyntaxError as error:
        raise OnedError(code, str(error)) from error
