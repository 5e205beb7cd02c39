"""The calls that say on which host a VM runs: one.vm.deploy and one.vm.migrate."""

from __future__ import annotations

from one_preempt.simulation.simulated_cloud import addressing, capacity
from one_preempt.simulation.simulated_cloud.authorization import Right, Subject, refusal
from one_preempt.simulation.simulated_cloud.calls.vm_states import state_name
from one_preempt.simulation.simulated_cloud.calls.vms import VmCalls, parsed
from one_preempt.simulation.simulated_cloud.cloud_state import datastore_subject, host_subject, oned_call
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller, SimDatastore, SimHost, SimVm, TemplateDict
from one_preempt.simulation.simulated_cloud.quotas import QuotaHolder, running_request
from one_preempt.simulation.simulated_cloud.restrictions import created_with
from one_preempt.simulation.simulated_cloud.states import (
    DatastoreType,
    HistoryAction,
    HostState,
    LcmState,
    MigrationType,
    VmState,
)
from one_preempt.simulation.simulated_cloud.templates import text_of, vectors_of
from one_preempt.simulation.simulated_cloud.topology import pin_policy
from one_preempt.simulation.simulated_cloud.vm_building import (
    describe_networks,
    required_clusters,
    set_automatic_requirements,
)

_L, _S = LcmState, VmState
_DEPLOYABLE = frozenset({_S.PENDING, _S.HOLD, _S.STOPPED, _S.UNDEPLOYED})
_WITH_DISKS = frozenset({_S.STOPPED, _S.UNDEPLOYED})
_MOVABLE = frozenset({"RUNNING", "UNKNOWN", "POWEROFF", "SUSPENDED"})
_PROLOG_AFTER: dict[int, LcmState] = {
    HistoryAction.STOP: _L.PROLOG_RESUME,
    HistoryAction.UNDEPLOY: _L.PROLOG_UNDEPLOY,
    HistoryAction.UNDEPLOY_HARD: _L.PROLOG_UNDEPLOY,
}
_OFFLINE, _SYSTEM, _ADMIN = HostState.OFFLINE, DatastoreType.SYSTEM, Right.ADMIN
_MIGRATION_ACTIONS = {
    MigrationType.POWEROFF: HistoryAction.POWEROFF_MIGRATE,
    MigrationType.POWEROFF_HARD: HistoryAction.POWEROFF_HARD_MIGRATE,
}


class VmPlacements(VmCalls):
    """one.vm.deploy and one.vm.migrate."""

    # ---------------------------------------------------------------- deploy

    @oned_call
    def vm_deploy(
        self, caller: Caller, vm_id: int, host_id: int, enforce: bool = False, datastore_id: int = -1, extra: str = ""
    ) -> int:
        """Start a PENDING, HOLD, STOPPED or UNDEPLOYED VM on a host.

        Only OFFLINE hosts are refused; capacity is looked at with `enforce`, for pinned VMs and on pinned hosts.
        `datastore_id` -1 takes the last one of a stopped VM, else the first system datastore of the host's cluster.
        `extra` may choose networks for automatic NICs.
        """
        choice: TemplateDict = parsed(extra, ErrorCode.INTERNAL) if extra else {}
        host = self._usable_host(host_id)
        vm = self.vm(vm_id)
        returns = _returns(vm)
        if datastore_id == -1 and returns:
            datastore_id = vm.history[-1].datastore_id
        datastore = self._deploy_datastore(host, datastore_id)
        rights: list[tuple[Right, Subject]] = []
        if not caller.is_admin:
            rights = [(Right.MANAGE, host_subject(host)), (Right.USE, datastore_subject(datastore))]
        connects = bool(extra) and not returns
        if connects:
            if not caller.is_admin and (name := created_with(choice)):
                raise OnedError(ErrorCode.AUTHORIZATION, f"NIC includes a restricted attribute {name}")
            rights += self.uses_of(choice, vm.uid)
        self.demand_vm(caller, _ADMIN, vm, *rights)
        if vm.state not in _DEPLOYABLE:
            raise OnedError(ErrorCode.ACTION, f"Deploy action is not available for state {state_name(vm)}")
        self._demand_fit(vm, host, enforce or _is_pinned(vm))
        if connects:
            addressing.connect_automatic_nics(self, vm, vectors_of(choice, "NIC"))
            describe_networks(self, vm)
        beyond = self._quotas_exceeded_by(vm, caller)
        self._go_to(vm, host, datastore)
        self.quota_books.leave_out(beyond, running_request(vm))
        return vm_id

    def _quotas_exceeded_by(self, vm: SimVm, caller: Caller) -> list[QuotaHolder]:
        """Whose running quota a stopped VM exceeds. 7.x refuses to deploy it, and so does 6.10 from 6.10.3 on; before
        that, which is the 6.x told here, oned deploys it and does not count it there.
        """
        if vm.state not in _WITH_DISKS:
            return []
        objections = self.quota_books.objections(vm.uid, vm.gid, running_request(vm))
        if objections and self.is_series_7:
            raise refusal(caller, objections[0].words)
        return [objection.holder for objection in objections]

    def _go_to(self, vm: SimVm, host: SimHost, datastore: SimDatastore) -> None:
        prolog = _PROLOG_AFTER.get(vm.history[-1].action, _L.PROLOG) if vm.history else _L.PROLOG
        if "GRAPHICS" in vm.template:
            for graphics in vectors_of(vm.template, "GRAPHICS"):
                graphics.setdefault("PORT", str(5900 + vm.id))
        vm.template["TM_MAD_SYSTEM"] = [datastore.tm_mad]
        record = self.add_record(vm, host, datastore.id)
        record.pstime_s = self.now_s
        self.charge_host(vm, host.id)
        if self._hears_passing:
            self.enter_with_quota(vm, _S.ACTIVE)
            self.begin(vm, prolog)
        else:
            self.begin_with_quota(vm, prolog)

    def _usable_host(self, host_id: int) -> SimHost:
        host = self.host(host_id)
        if host.state == _OFFLINE:
            raise OnedError(ErrorCode.ACTION, "Host is offline, cannot use it to deploy VM")
        return host

    def _deploy_datastore(self, host: SimHost, datastore_id: int) -> SimDatastore:
        if datastore_id != -1:
            datastore = self._system_datastore(datastore_id)
            if host.cluster_id not in datastore.cluster_ids:
                raise OnedError(
                    ErrorCode.ACTION,
                    f"datastore [{datastore_id}] and host [{host.id}] are not in the same cluster [{host.cluster_id}].",
                )
            return datastore
        for candidate in sorted(self.clusters[host.cluster_id].datastore_ids):
            if self.datastores[candidate].type == DatastoreType.SYSTEM:
                return self.datastores[candidate]
        raise OnedError(ErrorCode.ACTION, f"cluster [{host.cluster_id}] does not have any datastore of type SYSTEM_DS.")

    def _system_datastore(self, datastore_id: int) -> SimDatastore:
        datastore = self.datastore(datastore_id)
        if datastore.type != _SYSTEM:
            raise OnedError(
                ErrorCode.INTERNAL,
                f"Trying to use datastore [{datastore_id}] to deploy the VM, but it is not of type system datastore.",
            )
        return datastore

    def _demand_fit(self, vm: SimVm, host: SimHost, enforce: bool) -> None:
        if enforce and (misfit := capacity.misfit(host, vm)):
            raise OnedError(ErrorCode.ACTION, f"virtual machine [{vm.id}] does not fit in host [{host.id}]. {misfit}")

    # ---------------------------------------------------------------- migrate

    @oned_call
    def vm_migrate(
        self,
        caller: Caller,
        vm_id: int,
        host_id: int,
        live: bool,
        enforce: bool = False,
        datastore_id: int = -1,
        migration_type: int = MigrationType.SAVE,
    ) -> int:
        """Move a RUNNING, UNKNOWN, POWEROFF or SUSPENDED VM; live only while RUNNING, else as `migration_type` says."""
        host = self._usable_host(host_id)
        rights = [(Right.MANAGE, host_subject(host))]
        if datastore_id != -1:
            rights.append((Right.USE, datastore_subject(self.datastore(datastore_id))))
        vm = self.vm(vm_id)
        self.demand_vm(caller, Right.ADMIN, vm, *rights)
        self._demand_movable(vm, host, live, datastore_id)
        if vm.history[-1].host_id != host_id:
            self._demand_fit(vm, host, enforce)
        set_automatic_requirements(self, vm)
        if vectors_of(vm.template, "PCI") and not migration_type and vm.state != _S.POWEROFF:
            raise OnedError(
                ErrorCode.ACTION,
                f"Cannot migrate VM [{vm_id}], use poweroff or poweroff-hard flag for migrating a VM with PCI devices",
            )
        datastore = self._migration_datastore(vm, host, live, datastore_id)
        if live and state_name(vm) == "RUNNING":
            self._migrate_live(vm, host, datastore, caller)
        else:
            self._migrate_cold(vm, host, datastore, caller, migration_type)
        return vm_id

    def _demand_movable(self, vm: SimVm, host: SimHost, live: bool, datastore_id: int) -> None:
        if state_name(vm) not in _MOVABLE:
            raise OnedError(ErrorCode.ACTION, f"Migrate action is not available for state {state_name(vm)}")
        if live and pin_policy(vm):
            raise OnedError(ErrorCode.ACTION, "VM with a pinned NUMA topology cannot be live-migrated")
        record = vm.history[-1]
        moves_datastore = datastore_id not in (-1, record.datastore_id)
        if record.host_id == host.id and not moves_datastore:
            where = f" and datastore [{record.datastore_id}]" if self.is_series_7 else ""
            raise OnedError(ErrorCode.ACTION, f"VM is already running on host [{host.id}]{where}")
        if live and record.host_id != host.id and moves_datastore:
            raise OnedError(ErrorCode.ACTION, "Cannot live migrate host and datastore at the same time.")

    def _migration_datastore(self, vm: SimVm, host: SimHost, live: bool, datastore_id: int) -> SimDatastore:
        clusters = required_clusters(vm)
        if clusters and host.cluster_id not in clusters:
            raise OnedError(
                ErrorCode.ACTION,
                f"Cannot migrate  VM [{vm.id}] to host [{host.id}]. Host is in cluster [{host.cluster_id}], and VM"
                f" requires to be placed on cluster [{','.join(map(str, clusters))}]",
            )
        last = vm.history[-1]
        datastore = self._system_datastore(last.datastore_id if datastore_id == -1 else datastore_id)
        if datastore.id != last.datastore_id:
            if text_of(datastore.template, "DS_LIVE_MIGRATE" if live else "DS_MIGRATE") != "YES":
                kind = "Live system" if live else "System"
                raise OnedError(ErrorCode.ACTION, f"{kind} datastore migration not supported by driver")
            if datastore.tm_mad != last.tm_mad:
                raise OnedError(ErrorCode.ACTION, "Cannot migrate to a system datastore with a different driver")
        if host.cluster_id not in datastore.cluster_ids:
            raise OnedError(
                ErrorCode.ACTION,
                f"Cannot migrate VM [{vm.id}] to host [{host.id}] and system datastore [{datastore.id}]. Host is in"
                f" cluster [{host.cluster_id}], and the datastore is in cluster"
                f" [{','.join(map(str, datastore.cluster_ids))}]",
            )
        return datastore

    def _migrate_live(self, vm: SimVm, host: SimHost, datastore: SimDatastore, caller: Caller) -> None:
        vm.resched = False
        self.sign(vm.history[-1], caller, HistoryAction.LIVE_MIGRATE)
        self.add_record(vm, host, datastore.id)
        self.charge_host(vm, host.id)
        self.begin(vm, _L.MIGRATE)

    def _migrate_cold(
        self, vm: SimVm, host: SimHost, datastore: SimDatastore, caller: Caller, migration_type: int
    ) -> None:
        source, vm.resched = vm.history[-1], False
        if state_name(vm) == "RUNNING":
            action = _MIGRATION_ACTIONS.get(MigrationType(migration_type), HistoryAction.MIGRATE)
            self.sign(source, caller, action)
            self.sign(self.add_record(vm, host, datastore.id), caller, action)
            self.charge_host(vm, host.id)
            self.begin(vm, _L.SAVE_MIGRATE)
            return
        prologs = {_S.POWEROFF: _L.PROLOG_MIGRATE_POWEROFF, _S.SUSPENDED: _L.PROLOG_MIGRATE_SUSPEND}
        source.retime_s = source.etime_s = self.now_s
        if vm.state == _S.ACTIVE:
            self.sign(source, caller, HistoryAction.MIGRATE)
        record = self.add_record(vm, host, datastore.id)
        record.pstime_s = self.now_s
        self.sign(record, caller, HistoryAction.MIGRATE)
        self.charge_host(vm, host.id)
        if source.host_id != host.id:
            self.release_host(vm, source.host_id)
        self.begin(vm, prologs.get(vm.state, _L.PROLOG_MIGRATE_UNKNOWN))


def _returns(vm: SimVm) -> bool:
    """The VM comes back from STOPPED or UNDEPLOYED, with its disks."""
    return bool(vm.history) and vm.history[-1].action in _PROLOG_AFTER


def _is_pinned(vm: SimVm) -> bool:
    """The VM has threads of its own: its room is always checked, whatever the host's PIN_POLICY."""
    return "TOPOLOGY" in vm.template and pin_policy(vm) != ""
