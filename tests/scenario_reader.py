"""Reads the scenario files of tests/scenarios: one screen each, a cluster, a configuration, what must be decided.

Hosts and VMs are given by what differs from the usual: a host of 4 CPUs and 8192 MiB, a VM of 1 CPU and 1024 MiB that
has run for an hour (or waits, without `host`). Users: lea of group locals (may preempt), eva and evan of externals
(BE-SUSPENDABLE by rule), paul of plain. `settings` is laid over these rules; "shipped" means no configuration at all.
A VM that is `gone` was there when leases were admitted; one that was `given_to` somebody was `user`'s until then.
`took_s` of a ledger tells how long operations of a kind took, one after the other.
`images` tells which hosts hold which, with their MiB, what is under way for how long, and what has failed how often.
All times are seconds from the instant of the decision on: a LEASE may say START_IN_S, DEADLINE_IN_S and DURATION_S.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from one_preempt.configuration.chosen_policies import admission_rules, policies
from one_preempt.configuration.settings import Settings, parse_settings
from one_preempt.core.decide import decide
from one_preempt.core.model.access import Directory, Group, Quota, User
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import Host, HostDatastore, HostState, PciDevice
from one_preempt.core.model.image_transfer import (
    HeldImage,
    HostImages,
    ImageOrder,
    ImageOrderKind,
    TransferPhase,
    TransferRecord,
)
from one_preempt.core.model.infrastructure import Cluster
from one_preempt.core.model.lease import PreemptionMethod
from one_preempt.core.model.ledger import ActionRecord, LeaseRecord, Ledger, OpenPreemption
from one_preempt.core.model.observed_overhead import ObservedOverhead, OverheadKind
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.owner_use import OwnerUse
from one_preempt.core.model.plan import ActionKind, Placement, Plan, Preemption, Victim
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.recount_rules import RecountRules
from one_preempt.core.model.reservation import Reservation, Verdict
from one_preempt.core.model.virtual_machine import (
    HistoryRecord,
    LcmState,
    LockLevel,
    PciRequest,
    VirtualMachine,
    VmState,
)
from one_preempt.core.model.written_time import duration_text, utc_text
from one_preempt.core.owner_use.measuring import with_use
from one_preempt.core.policies import Policies
from one_preempt.core.reconcile import Reconciliation, reconcile
from one_preempt.core.verify import Violation, verify
from tests.scenario_infrastructure import (
    acl_rules_of,
    attributes_of,
    clusters_of,
    datastores_of,
    disks_of,
    networks_of,
    nics_of,
    numa_nodes_of,
    topology_of,
    vm_groups_of,
)

NOW_S = 1_700_000_000
GROUPS = {"oneadmin": 0, "locals": 100, "externals": 101, "plain": 102}
USERS = {"oneadmin": 0, "lea": 10, "eva": 11, "evan": 12, "paul": 13}
SYSTEM_DATASTORE = 100
EVERY_TYPE = ["BE-CANCELLABLE", "BE-SUSPENDABLE", "DC-MIGRATABLE"]
USUAL_SETTINGS: dict[str, Any] = {
    "preemption": "act",
    "leases": {
        "rules": [
            {"name": "externals", "match": {"group": "externals"}, "type": "BE-SUSPENDABLE"},
            {"name": "locals", "match": {"group": "locals"}, "may_preempt": True},
        ],
        "rights": [
            {"name": "externals may claim", "group": "externals", "may_claim": EVERY_TYPE},
            {"name": "locals may claim", "group": "locals", "may_claim": EVERY_TYPE, "may_preempt": True},
        ],
    },
}


@dataclass(frozen=True)
class Decided:
    """A scenario that was played."""

    reconciliation: Reconciliation
    plan: Plan
    recount_rules: RecountRules
    violations: tuple[Violation, ...]

    @property
    def state(self) -> ClusterState:
        return self.reconciliation.state


def play(document: dict[str, Any]) -> Decided:
    """Reconcile, decide and verify."""
    settings = settings_of(document)
    reconciled = reconcile(
        snapshot_of(document), ledger_of(document, snapshot_of(document, gone=True)), admission_rules(settings), NOW_S
    )
    chosen = policies_of(document)
    if chosen.queue_order.measures is not None:
        reconciled = with_use(reconciled, _owner_use(document), chosen.queue_order.measures)
    plan = decide(reconciled.state, chosen)
    return Decided(reconciled, plan, chosen.recount_rules, verify(reconciled.state, plan, rules=chosen.recount_rules))


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    return document


def settings_of(document: dict[str, Any]) -> Settings:
    return _settings_in(_configuration_of(document))


def policies_of(document: dict[str, Any]) -> Policies:
    return _policies_in(_configuration_of(document), document.get("policy"))


def _configuration_of(document: dict[str, Any]) -> str:
    given = document.get("settings", {})
    return json.dumps({} if given == "shipped" else USUAL_SETTINGS | given)


# Most scenarios have the usual configuration, and its text takes as long to read as a decision.
@cache
def _settings_in(configuration: str) -> Settings:
    return parse_settings(configuration, "scenario")


@cache
def _policies_in(configuration: str, preemption: str | None) -> Policies:
    return policies(_settings_in(configuration), preemption)


def snapshot_of(document: dict[str, Any], *, gone: bool = False) -> PoolSnapshot:
    """The cluster now; `gone`: with the VMs that are `gone` by now."""
    known = {vm_id: _owned(given or {}, before=gone) for vm_id, given in document.get("vms", {}).items()}
    vms = {vm_id: _vm(vm_id, given) for vm_id, given in known.items() if gone or not given.get("gone")}
    hosts = {host_id: _host(host_id, given or {}, vms) for host_id, given in document["hosts"].items()}
    clusters = clusters_of(document, {host_id: host.cluster_id for host_id, host in hosts.items()})
    hosts = {host_id: _with_cluster_template(host, clusters) for host_id, host in hosts.items()}
    return PoolSnapshot(
        observed_at_s=NOW_S,
        version=document.get("version", "7.4.0"),
        zone_id=0,
        raft_state=RaftState.SOLO,
        hosts=hosts,
        vms=vms,
        clusters=clusters,
        datastores=datastores_of(document, SYSTEM_DATASTORE),
        networks=networks_of(document),
        vm_groups=vm_groups_of(document),
        directory=_directory(document),
    )


def _owned(given: dict[str, Any], *, before: bool) -> dict[str, Any]:
    """A VM as its owner of before had it, or as it is since it was given to somebody."""
    return given if before or "given_to" not in given else given | {"user": given["given_to"]}


def _with_cluster_template(host: Host, clusters: Mapping[int, Cluster]) -> Host:
    template = {f"CLUSTER_TEMPLATE/{name}": value for name, value in clusters[host.cluster_id].attributes.items()}
    return replace(host, attributes={**host.attributes, **template})


def _directory(document: dict[str, Any]) -> Directory:
    quotas = document.get("quotas") or {}
    users = {
        uid: User(uid, name, _gid_of(name), "", (_gid_of(name),), vm_quotas=_quotas(quotas.get(name)))
        for name, uid in USERS.items()
    }
    groups = {gid: Group(gid, name) for name, gid in GROUPS.items()}
    return Directory(users, groups, acl_rules_of(document, GROUPS.values()))


def _quotas(given: dict[str, float] | None) -> tuple[Quota, ...]:
    if given is None:
        return ()
    limits = {name: value for name, value in given.items() if not name.endswith("_USED")}
    used = {name.removesuffix("_USED"): value for name, value in given.items() if name.endswith("_USED")}
    return (Quota((), limits, used),)


def _gid_of(user: str) -> int:
    by_user = {"oneadmin": "oneadmin", "lea": "locals", "eva": "externals", "evan": "externals", "paul": "plain"}
    return GROUPS[by_user[user]]


def _host(host_id: int, given: dict[str, Any], vms: dict[int, VirtualMachine]) -> Host:
    residents = [vm for vm in vms.values() if vm.host_id == host_id]
    devices = tuple(
        PciDevice(f"0000:0{n}:00.0", f"0{n}:00.0", "10de", "0863", "0302", device_vm)
        for n, device_vm in enumerate(given.get("gpus", []))
    )
    max_memory_kib = given.get("memory", 8192) * 1024
    max_cpu = int(given.get("cpu", 4) * 100)
    return Host(
        id=host_id,
        name=f"host{host_id}",
        state=HostState[given.get("state", "MONITORED")],
        cluster_id=given.get("cluster", 0),
        cluster_name=f"cluster{given['cluster']}" if "cluster" in given else "default",
        max_cpu_centi=max_cpu,
        cpu_usage_centi=sum(vm.cpu_centi for vm in residents),
        max_memory_kib=max_memory_kib,
        memory_usage_kib=sum(vm.memory_mib for vm in residents) * 1024,
        total_cpu_centi=max_cpu,
        total_memory_kib=max_memory_kib,
        running_vms=len(residents),
        vm_ids=tuple(vm.id for vm in residents),
        free_disk_mib=given.get("free_disk", 100_000),
        datastores=tuple(HostDatastore(ds, free, free, 0) for ds, free in given.get("datastores", {}).items()),
        vms_thread=given.get("vms_thread", 1),
        pci_devices=devices,
        numa_nodes=numa_nodes_of(given),
        attributes={**attributes_of(given), **_monitored(given)},
    )


def _monitored(given: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    return {f"MONITORING/CAPACITY/{name}": (str(value),) for name, value in given.get("monitored", {}).items()}


def _vm(vm_id: int, given: dict[str, Any]) -> VirtualMachine:
    user = given.get("user", "paul")
    state, lcm_state = _states(given)
    template: dict[str, tuple[Any, ...]] = {name: (str(v),) for name, v in given.get("attributes", {}).items()}
    if "lease" in given:
        lease = given["lease"]
        template["LEASE"] = (_lease_attribute(lease) if isinstance(lease, dict) else lease,)
    uid = USERS[user]
    topology, numa_nodes = topology_of(given)
    return VirtualMachine(
        id=vm_id,
        name=f"vm{vm_id}",
        uid=uid,
        gid=_gid_of(user),
        uname=user,
        gname=next(name for name, gid in GROUPS.items() if gid == _gid_of(user)),
        state=state,
        lcm_state=lcm_state,
        resched=given.get("resched", False),
        submitted_at_s=NOW_S - 10_000 + vm_id,
        ended_at_s=0,
        cpu_centi=int(given.get("cpu", 1) * 100),
        memory_mib=given.get("memory", 1024),
        automatic_requirements=given.get("automatic", ""),
        automatic_datastore_requirements=given.get("automatic_ds", ""),
        automatic_nic_requirements=given.get("automatic_nic", ""),
        sched_requirements=given.get("requirements", ""),
        sched_datastore_requirements=given.get("ds_requirements", ""),
        sched_rank=given.get("rank", ""),
        sched_datastore_rank=given.get("ds_rank", ""),
        user_priority=str(given.get("priority", "")),
        lock_level=LockLevel[given.get("lock", "NONE")],
        lock_owner_uid=given.get("lock_owner"),
        service_id=str(given.get("service", "")),
        virtual_router_id=given.get("virtual_router"),
        vm_group_id=given["group"][0] if "group" in given else None,
        vm_group_role=given["group"][1] if "group" in given else "",
        disks=disks_of(given),
        nics=nics_of(given),
        pci_requests=_pci_requests(given),
        topology=topology,
        numa_nodes=numa_nodes,
        history=_history(given),
        user_template=template,
    )


def _lease_attribute(given: dict[str, Any]) -> dict[str, str]:
    """As its owner would write it: relative times become instants and durations."""
    written = {}
    for name, value in given.items():
        if name in ("START_IN_S", "DEADLINE_IN_S"):
            written[name.removesuffix("_IN_S")] = utc_text(NOW_S + value)
        elif name == "DURATION_S":
            written["DURATION"] = duration_text(value)
        else:
            written[name] = str(value)
    return written


def _pci_requests(given: dict[str, Any]) -> tuple[PciRequest, ...]:
    by_kind = (PciRequest("10de", "0863", "0302") for _ in range(given.get("gpus", 0)))
    by_address = (PciRequest(short_address=address) for address in given.get("pci_addresses", ()))
    return (*by_kind, *by_address)


def _states(given: dict[str, Any]) -> tuple[VmState, int]:
    name = given.get("state", "RUNNING" if "host" in given else "PENDING")
    if name in VmState.__members__:
        return VmState[name], 0
    return VmState.ACTIVE, LcmState[name]


def _history(given: dict[str, Any]) -> tuple[HistoryRecord, ...]:
    host_id = given.get("host", given.get("last_host"))
    if host_id is None:
        return ()
    since_s = NOW_S - given.get("running_for_s", 3600)
    return (
        HistoryRecord(
            sequence=given.get("stay", 0),
            host_id=host_id,
            hostname=f"host{host_id}",
            cluster_id=0,
            datastore_id=given.get("last_datastore", SYSTEM_DATASTORE),
            action=given.get("last_action", 0),
            start_at_s=since_s,
            end_at_s=0,
            prolog_start_at_s=since_s,
            prolog_end_at_s=since_s,
            running_start_at_s=since_s,
            running_end_at_s=0,
            epilog_end_at_s=0,
            tm_mad="shared",
        ),
    )


def ledger_of(document: dict[str, Any], snapshot: PoolSnapshot) -> Ledger:
    """Leases admitted before are admitted afresh from the rules, with the counters of `leases` laid over."""
    given = document.get("ledger") or {}
    settings = settings_of(document)
    first = reconcile(snapshot, Ledger(), admission_rules(settings), NOW_S)
    leases = {record.id: _with_counters(record, given.get("leases", {})) for record in first.changes.admitted}
    actions = {name: _action(name, entry) for name, entry in given.get("actions", {}).items()}
    return Ledger(
        leases=leases,
        preemptions=tuple(_preemption(name, entry) for name, entry in given.get("preemptions", {}).items()),
        open_actions={name: record for name, record in actions.items() if record.closed_at_s is None},
        failed_actions=tuple(record for record in actions.values() if record.closed_at_s is not None),
        victims_last_hour=(NOW_S - 60,) * given.get("victims_last_hour", 0),
        paused=given.get("paused", False),
        reservations={
            lease_id: _reserved(lease_id, stays) for lease_id, stays in given.get("reservations", {}).items()
        },
        image_transfers=_transfers(document.get("images", {})),
        held_images={
            host_id: HostImages(
                host_id, NOW_S, tuple(HeldImage(image_id, size, NOW_S - 600) for image_id, size in sorted(pool.items()))
            )
            for host_id, pool in document.get("images", {}).get("held", {}).items()
        },
        observed_overheads=tuple(
            ObservedOverhead(OverheadKind(kind), 0, SYSTEM_DATASTORE, 1024, took_s, NOW_S)
            for kind, took in given.get("took_s", {}).items()
            for took_s in took
        ),
    )


def _owner_use(document: dict[str, Any]) -> tuple[OwnerUse, ...]:
    """`used_cpu_hours` of users until just now."""
    used = (document.get("ledger") or {}).get("used_cpu_hours", {})
    groups = {user: next(name for name, gid in GROUPS.items() if gid == _gid_of(user)) for user in used}
    rows = [
        OwnerUse(_gid_of(user), USERS[user], groups[user], user, int(hours * 360_000), NOW_S - 1)
        for user, hours in used.items()
    ]
    return tuple(sorted(rows, key=lambda row: row.owner))


def _transfers(given: dict[str, Any]) -> dict[str, TransferRecord]:
    """`under_way: {stage/7/1: {size: 600, for_s: 10}}`; of what has `failed` also `attempts`, `needed_in_s`.

    `ahead_of: [5]`, for so long as it `takes_s`, where nobody was promised it.
    """
    phases = {"under_way": TransferPhase.UNDER_WAY, "failed": TransferPhase.FAILED}
    return {
        name: _transfer(name, phases[phase], entry) for phase in phases for name, entry in given.get(phase, {}).items()
    }


def _transfer(name: str, phase: TransferPhase, given: dict[str, Any]) -> TransferRecord:
    kind, image_id, host_id = name.split("/")
    since_s, ahead_of = NOW_S - given.get("for_s", 0), tuple(given.get("ahead_of", ()))
    order = ImageOrder(
        ImageOrderKind(kind), int(image_id), int(host_id), f"host{host_id}", 1, given["size"], since_s,
        since_s + given.get("takes_s", 0), None if ahead_of else NOW_S + given.get("needed_in_s", 0), ahead_of, "", "",
    )  # fmt: skip
    text = "no space left on the host" if phase is TransferPhase.FAILED else ""
    return TransferRecord(order, phase, since_s, given.get("attempts", 1), NOW_S + given.get("again_in_s", 0), text)


def image_orders(plan: Plan) -> list[str]:
    """What is ordered now of images, as scenarios write it."""
    return [
        f"{order.id} ({order.size_mib} MiB) from {order.begin_at_s - NOW_S} to {order.due_at_s - NOW_S} "
        f"for {', '.join(map(str, order.lease_ids))}"
        for order in (*plan.image_orders, *plan.advised_image_orders)
    ]


def _with_counters(record: LeaseRecord, given: dict[int, dict[str, Any]]) -> LeaseRecord:
    """`run_began_ago_s`, `last_preempted_ago_s` and `verdict` are read; all else are counters of a record, as they are.

    What had left by its owner's hand before others were sent out is named: `paused_vm_ids`.
    """
    counters = dict(given.get(record.id, {}))
    adopted = record.paused_vm_ids if record.preempted_by is not None else ()
    counters["paused_vm_ids"] = tuple(counters.get("paused_vm_ids", adopted))
    if "verdict" in counters:
        counters["verdict"] = Verdict(counters["verdict"])
    if "run_began_ago_s" in counters:
        counters["run_began_at_s"] = NOW_S - counters.pop("run_began_ago_s")
    if "last_preempted_ago_s" in counters:
        counters["last_preempted_at_s"] = NOW_S - counters.pop("last_preempted_ago_s")
    return replace(record, **counters)


def _reserved(lease_id: int, stays: list[dict[str, Any]]) -> tuple[Reservation, ...]:
    return tuple(
        Reservation(
            lease_id=lease_id,
            start_at_s=NOW_S + stay["start_in_s"],
            end_at_s=NOW_S + stay["end_in_s"] if "end_in_s" in stay else None,
            host_ids=tuple(stay.get("hosts", ())),
            firm=stay.get("firm", False),
        )
        for stay in stays
    )


def _action(name: str, given: dict[str, Any]) -> ActionRecord:
    failed_ago_s = given.get("failed_ago_s")
    at_s = NOW_S - (failed_ago_s if failed_ago_s is not None else given.get("ago_s", 15))
    outcome = given.get("outcome", "accepted")
    return ActionRecord(
        id=name,
        kind=ActionKind(given["kind"]),
        vm_id=given["vm"],
        lease_id=given.get("lease", given["vm"]),
        preemption_id=name.partition("/")[0] if "@" in name else None,
        host_id=given.get("host"),
        datastore_id=None,
        reason_code=given.get("reason", "test"),
        reason_text="test",
        intended_at_s=at_s,
        attempts=given.get("attempts", 1),
        outcome=Outcome(outcome) if outcome else None,
        outcome_at_s=at_s,
        error_text=given.get("error", ""),
        closed_at_s=at_s if failed_ago_s is not None else None,
        succeeded=False if failed_ago_s is not None else None,
    )


def _preemption(name: str, given: dict[str, Any]) -> OpenPreemption:
    preemptor = int(name.partition("@")[0])
    victims = tuple(
        Victim(
            vm["vm"],
            vm.get("lease", vm["vm"]),
            vm["host"],
            PreemptionMethod(vm.get("method", "stop")),
            vm.get("target"),
            vm.get("stay"),
        )
        for vm in given["victims"]
    )
    placements = tuple(Placement(vm_id, host_id, SYSTEM_DATASTORE) for vm_id, host_id in given["places"].items())
    opened_at_s = NOW_S - given.get("ago_s", 30)
    preemption = Preemption(name, preemptor, victims, placements, "MOML", 1000, True, 1000, opened_at_s)
    return OpenPreemption(preemption, opened_at_s)


PLACING = frozenset({ActionKind.DEPLOY, ActionKind.MIGRATE, ActionKind.LIVE_MIGRATE})


def sentences(plan: Plan) -> list[str]:
    """The plan's actions but messages, as short sentences: "deploy 7 on 0 after stop 1, stop 2"."""
    named = {action.id: f"{action.kind} {action.vm_id}" for action in (*plan.actions, *plan.advised_actions)}
    told = []
    for action in plan.actions:
        if action.kind is ActionKind.MESSAGE:
            continue
        sentence = named[action.id]
        if action.kind in PLACING:
            sentence += f" on {action.host_id}"
        if not action.enforce_capacity:
            sentence += " unenforced"
        if action.after:
            sentence += " after " + ", ".join(named[earlier] for earlier in action.after)
        told.append(sentence)
    return told


def advised_sentences(plan: Plan) -> list[str]:
    """The same of the actions that are only advised."""
    return sentences(replace(plan, actions=plan.advised_actions))


def bookings(plan: Plan) -> dict[int, list[str]]:
    """The plan's bookings by lease, as short sentences in seconds from now on: "600 to 4240 on 0, 1 (firm)"."""
    return {booking.lease_id: [_stay(one) for one in booking.reservations] for booking in plan.bookings}


def _stay(one: Reservation) -> str:
    until = "open" if one.end_at_s is None else str(one.end_at_s - NOW_S)
    hosts = f" on {', '.join(map(str, one.host_ids))}" if one.host_ids else ""
    return f"{one.start_at_s - NOW_S} to {until}{hosts}{' (firm)' if one.firm else ''}"
