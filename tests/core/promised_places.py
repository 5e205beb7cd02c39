"""Clouds in which devices and places beside a VM group were promised for times to come, drawn at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from one_preempt.configuration.chosen_policies import admission_rules
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.policies import Policies
from one_preempt.core.reconcile import reconcile
from tests import scenario_reader

HOSTS, WISH = 3, 500
ROLES = ("a", "b", "c")

roles = st.sampled_from((None, *ROLES))
rows, few = st.integers(0, HOSTS - 1), st.integers(0, 1)
guests = st.lists(st.tuples(rows, roles, few, st.sampled_from((0, 300, 900))), max_size=5)
promises = st.lists(st.tuples(rows, roles, few, st.integers(1, 12), st.sampled_from((100, 400, 5000))), max_size=6)
wishes = st.tuples(st.lists(roles, min_size=1, max_size=2), few, st.sampled_from((50, 500, 5000)))
groups = st.fixed_dictionaries(
    {
        "roles": st.fixed_dictionaries(
            {
                role: st.fixed_dictionaries(
                    {"policy": st.sampled_from(("NONE", "NONE", "AFFINED", "ANTI_AFFINED"))},
                    optional={"hosts": st.just([0, 1]), "not_hosts": st.just([0])},
                )
                for role in ROLES
            }
        )
    },
    optional={
        "affined": st.just([["a", "b"]]),
        "anti_affined": st.sampled_from(([["a", "c"]], [["b", "c"], ["a", "b"]])),
    },
)


def document(group: Any, there: Any, promised: Any, wish: Any) -> dict[str, Any]:
    """Who is on hosts, what others were promised there, and a wish: each of a role of one VM group, or for a device."""

    def asks(role: str | None, gpus: int) -> dict[str, Any]:
        return {"cpu": 0.1, "memory": 10} | ({"group": [7, role]} if role else {}) | ({"gpus": 1} if gpus else {})

    vms: dict[int, dict[str, Any]] = {}
    devices: dict[int, list[int]] = {host_id: [-1, -1] for host_id in range(HOSTS)}
    ledger: dict[str, Any] = {"leases": {}, "reservations": {}}
    for vm_id, (host_id, role, gpus, lasts_s) in enumerate(there, 10):
        lease = {"TYPE": "DC-NON-PREEMPTABLE", "DURATION_S": lasts_s} if lasts_s else {"TYPE": "BE-CANCELLABLE"}
        vms[vm_id] = {"user": "lea", "host": host_id, "lease": lease} | asks(role, gpus)
        if gpus and -1 in devices[host_id]:
            devices[host_id][devices[host_id].index(-1)] = vm_id
    for vm_id, (host_id, role, gpus, start, lasts_s) in enumerate(promised, 100):
        terms = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 100 * start, "DURATION_S": lasts_s}
        vms[vm_id] = {"user": "lea", "state": "HOLD", "lease": terms} | asks(role, gpus)
        ledger["leases"][vm_id] = {"verdict": "accepted"}
        stay = {"start_in_s": 100 * start, "end_in_s": 100 * start + lasts_s, "hosts": [host_id], "firm": True}
        ledger["reservations"][vm_id] = [stay]
    of_wish, gpus, lasts_s = wish
    for vm_id, role in enumerate(of_wish, WISH):
        terms = {
            "TYPE": "DC-NON-PREEMPTABLE",
            "START_IN_S": 200,
            "DURATION_S": lasts_s,
            "SIZE": len(of_wish),
            "NAME": "wish",
        }
        vms[vm_id] = {"user": "lea", "state": "HOLD", "lease": terms} | asks(role, gpus)
    hosts = {host_id: {"cpu": 64, "gpus": devices[host_id]} for host_id in range(HOSTS)}
    return {"story": "", "hosts": hosts, "vms": vms, "vm_groups": {7: group}, "ledger": ledger}


def cloud(given: dict[str, Any]) -> tuple[ClusterState, Policies]:
    """What a decision is about, and the policies it follows."""
    chosen = scenario_reader.settings_of(given)
    snapshot = scenario_reader.snapshot_of(given)
    ledger = scenario_reader.ledger_of(given, snapshot)
    state = reconcile(snapshot, ledger, admission_rules(chosen), scenario_reader.NOW_S).state
    return state, scenario_reader.policies_of(given)
