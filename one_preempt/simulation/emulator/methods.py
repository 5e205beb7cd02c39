"""oned's methods over the simulated cloud: which call of the cloud answers, and how its result is written.

Each function takes the cloud, the caller and the checked arguments of `signatures`, and returns the value of the
reply. Refusals are raised as `OnedError`; the front puts the method's name before their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from one_preempt.simulation.emulator import access_documents as access
from one_preempt.simulation.emulator import infrastructure_documents as infrastructure
from one_preempt.simulation.emulator import static_documents as static
from one_preempt.simulation.emulator.host_document import host, host_monitoring
from one_preempt.simulation.emulator.network_document import network, network_in_pool
from one_preempt.simulation.emulator.vm_document import accounting_record, vm_full, vm_monitoring, vm_short
from one_preempt.simulation.emulator.xml_writing import element
from one_preempt.simulation.simulated_cloud.cloud import SimulatedCloud
from one_preempt.simulation.simulated_cloud.errors import ErrorCode, OnedError
from one_preempt.simulation.simulated_cloud.objects import Caller, SimVm
from one_preempt.simulation.simulated_cloud.states import VmState

_ANY_BUT_DONE = -1

# The arguments were checked against the method's signature before; here they are taken by position.
Method = Callable[..., int | str | bool]


def _pool(tag: str, bodies: Iterable[str], tail: str = "") -> str:
    return f"<{tag}>{''.join(bodies)}{tail}</{tag}>"


def _vm_pool(extended: bool) -> Method:
    def answer(
        cloud: SimulatedCloud, caller: Caller, filter_flag: int, start: int, end: int, state: int, query: str
    ) -> str:
        if query:
            text = "JSON query search is not supported by the SQL backend"
            raise OnedError(ErrorCode.INTERNAL, text)
        return _vms(cloud, cloud.vm_pool(caller, filter_flag, start, end, state), extended)

    return answer


def _vms(cloud: SimulatedCloud, vms: Iterable[SimVm], extended: bool) -> str:
    bodies = (vm_full(vm, cloud.version, in_pool=True) if extended else vm_short(vm) for vm in vms)
    return _pool("VM_POOL", bodies)


def _vm_set(cloud: SimulatedCloud, caller: Caller, vm_ids: str, extended: bool) -> str:
    return _vms(cloud, cloud.vm_set(caller, vm_ids), extended)


def _accounting(cloud: SimulatedCloud, caller: Caller, filter_flag: int, start_s: int, end_s: int) -> str:
    records = cloud.accounting(caller, filter_flag, start_s, end_s)
    return _pool("HISTORY_RECORDS", (accounting_record(vm, record, cloud.version) for vm, record in records))


def _vm_info(cloud: SimulatedCloud, caller: Caller, vm_id: int, _decrypt: bool) -> str:
    return vm_full(cloud.vm_info(caller, vm_id), cloud.version, in_pool=False)


def _vm_monitoring(cloud: SimulatedCloud, caller: Caller, filter_flag: int, _seconds: int) -> str:
    vms = cloud.vm_pool(caller, filter_flag, -1, -1, _ANY_BUT_DONE)
    return element("MONITORING_DATA", vm_monitoring(vms))


def _host_info(cloud: SimulatedCloud, caller: Caller, host_id: int, _decrypt: bool) -> str:
    return host(cloud.host_info(caller, host_id), cloud.version, monitored=True)


def _host_pool(cloud: SimulatedCloud, caller: Caller) -> str:
    machines = cloud.host_pool(caller)
    return _pool("HOST_POOL", (host(machine, cloud.version, monitored=False) for machine in machines))


def _host_monitoring(cloud: SimulatedCloud, caller: Caller, _seconds: int) -> str:
    return element("MONITORING_DATA", host_monitoring(cloud.host_pool(caller)))


def _cluster_info(cloud: SimulatedCloud, caller: Caller, cluster_id: int, _decrypt: bool) -> str:
    return infrastructure.cluster(cloud.cluster_info(caller, cluster_id))


def _cluster_optimize(cloud: SimulatedCloud, caller: Caller, cluster_id: int) -> int:
    return cloud.cluster_info(caller, cluster_id).id


def _cluster_plan_execute(cloud: SimulatedCloud, caller: Caller, cluster_id: int) -> int:
    cloud.cluster_info(caller, cluster_id)
    raise OnedError(ErrorCode.ACTION, "Plan is not ready")


def _cluster_pool(cloud: SimulatedCloud, caller: Caller) -> str:
    return _pool("CLUSTER_POOL", map(infrastructure.cluster, cloud.cluster_pool(caller)))


def _datastore_pool(cloud: SimulatedCloud, caller: Caller) -> str:
    return _pool("DATASTORE_POOL", map(infrastructure.datastore, cloud.datastore_pool(caller)))


def _image_info(cloud: SimulatedCloud, caller: Caller, image_id: int, _decrypt: bool) -> str:
    return infrastructure.image(cloud.image_info(caller, image_id), cloud.version)


def _image_pool(cloud: SimulatedCloud, caller: Caller, filter_flag: int, start: int, end: int) -> str:
    images = cloud.image_pool(caller, filter_flag, start, end)
    return _pool("IMAGE_POOL", (infrastructure.image(picture, cloud.version) for picture in images))


def _network_pool(cloud: SimulatedCloud, caller: Caller, filter_flag: int, start: int, end: int) -> str:
    networks = cloud.network_pool(caller, filter_flag, start, end)
    return _pool("VNET_POOL", (network_in_pool(net, cloud.version) for net in networks))


def _network_info(cloud: SimulatedCloud, caller: Caller, network_id: int, _decrypt: bool) -> str:
    net = cloud.network_info(caller, network_id)
    seen = {vm.id for vm in cloud.vm_pool(caller)}
    return network(net, cloud.version, seen.__contains__)


def _vm_group_info(cloud: SimulatedCloud, caller: Caller, group_id: int, _decrypt: bool) -> str:
    return infrastructure.vm_group(cloud.vm_group_info(caller, group_id))


def _vm_group_pool(cloud: SimulatedCloud, caller: Caller, filter_flag: int, start: int, end: int) -> str:
    return _pool("VM_GROUP_POOL", map(infrastructure.vm_group, cloud.vm_group_pool(caller, filter_flag, start, end)))


def _template_pool(cloud: SimulatedCloud, caller: Caller, filter_flag: int, start: int, end: int) -> str:
    return _pool(
        "VMTEMPLATE_POOL", map(infrastructure.vm_template, cloud.template_pool(caller, filter_flag, start, end))
    )


def _user_info(cloud: SimulatedCloud, caller: Caller, uid: int, _decrypt: bool) -> str:
    return access.user(cloud.user_info(caller, uid), cloud.version)


def _user_pool(cloud: SimulatedCloud, caller: Caller) -> str:
    bodies = (access.user_in_pool(person, cloud.version) for person in cloud.user_pool(caller))
    return _pool("USER_POOL", bodies, access.default_quotas("DEFAULT_USER_QUOTAS", cloud.version))


def _group_info(cloud: SimulatedCloud, caller: Caller, gid: int, _decrypt: bool) -> str:
    return access.group(cloud.group_info(caller, gid), cloud.version)


def _group_pool(cloud: SimulatedCloud, caller: Caller) -> str:
    bodies = (access.group_in_pool(group, cloud.version) for group in cloud.group_pool(caller))
    return _pool("GROUP_POOL", bodies, access.default_quotas("DEFAULT_GROUP_QUOTAS", cloud.version))


def _acl_info(cloud: SimulatedCloud, caller: Caller) -> str:
    return _pool("ACL_POOL", map(access.acl, cloud.acl_pool(caller)))


def _security_group_pool(cloud: SimulatedCloud, caller: Caller, *_range: int) -> str:
    followers = (
        vm.id
        for vm in sorted(cloud.vms.values(), key=lambda vm: vm.id)
        if vm.state != VmState.DONE and any(_follows_security_group(nic) for nic in vm.template.get("NIC", ()))
    )
    return static.security_group_pool(followers)


def _follows_security_group(nic: str | dict[str, str]) -> bool:
    return not isinstance(nic, str) and "0" in nic.get("SECURITY_GROUPS", "").split(",")


def _vdc_pool(cloud: SimulatedCloud, caller: Caller) -> str:
    return static.vdc_pool(gid for gid in sorted(cloud.groups) if gid != 0)


def _of_cloud(name: str) -> Method:
    """The method of the cloud itself: same arguments, and an id as its result."""

    def answer(cloud: SimulatedCloud, caller: Caller, *arguments: Any) -> int:
        result: int = getattr(cloud, name)(caller, *arguments)
        return result

    return answer


METHODS: dict[str, Method] = {
    "one.acl.addrule": _of_cloud("acl_add"),
    "one.acl.info": _acl_info,
    "one.cluster.info": _cluster_info,
    "one.cluster.optimize": _cluster_optimize,
    "one.cluster.planexecute": _cluster_plan_execute,
    "one.clusterpool.info": _cluster_pool,
    "one.datastorepool.info": _datastore_pool,
    "one.group.info": _group_info,
    "one.group.quota": _of_cloud("group_quota"),
    "one.grouppool.info": _group_pool,
    "one.hooklog.info": lambda cloud, caller, *filters: "<HOOKLOG></HOOKLOG>",
    "one.hook.allocate": _of_cloud("hook_allocate"),
    "one.hook.delete": _of_cloud("hook_delete"),
    "one.hookpool.info": lambda cloud, caller, *filters: static.hook_pool(cloud.hook_pool(caller)),
    "one.host.allocate": _of_cloud("host_allocate"),
    "one.host.info": _host_info,
    "one.host.status": _of_cloud("host_status"),
    "one.host.update": _of_cloud("host_update"),
    "one.hostpool.info": _host_pool,
    "one.hostpool.monitoring": _host_monitoring,
    "one.image.info": _image_info,
    "one.imagepool.info": _image_pool,
    "one.secgrouppool.info": _security_group_pool,
    "one.system.config": lambda cloud, caller: static.configuration(cloud.version, cloud.zone_id, cloud.zones),
    "one.system.version": lambda cloud, caller: cloud.version,
    "one.template.instantiate": _of_cloud("template_instantiate"),
    "one.templatepool.info": _template_pool,
    "one.user.info": _user_info,
    "one.user.quota": _of_cloud("user_quota"),
    "one.userpool.info": _user_pool,
    "one.vdcpool.info": _vdc_pool,
    "one.vm.action": _of_cloud("vm_action"),
    "one.vm.allocate": _of_cloud("vm_allocate"),
    "one.vm.chmod": _of_cloud("vm_chmod"),
    "one.vm.chown": _of_cloud("vm_chown"),
    "one.vm.deploy": _of_cloud("vm_deploy"),
    "one.vm.info": _vm_info,
    "one.vm.lock": _of_cloud("vm_lock"),
    "one.vm.migrate": _of_cloud("vm_migrate"),
    "one.vm.recover": _of_cloud("vm_recover"),
    "one.vm.unlock": _of_cloud("vm_unlock"),
    "one.vm.update": _of_cloud("vm_update"),
    "one.vmgroup.info": _vm_group_info,
    "one.vmgrouppool.info": _vm_group_pool,
    "one.vmpool.accounting": _accounting,
    "one.vmpool.info": _vm_pool(extended=False),
    "one.vmpool.infoextended": _vm_pool(extended=True),
    "one.vmpool.infoset": _vm_set,
    "one.vmpool.monitoring": _vm_monitoring,
    "one.vn.info": _network_info,
    "one.vnpool.info": _network_pool,
    "one.zone.raftstatus": lambda cloud, caller: static.raft_status(cloud.raft_state),
    "one.zonepool.info": lambda cloud, caller: static.zone_pool(cloud.version, cloud.zones),
}
