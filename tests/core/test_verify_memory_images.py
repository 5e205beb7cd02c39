"""The recount adds up what saved VMs write to their datastore, for whomever they are saved."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import HostDatastore
from one_preempt.core.model.infrastructure import Datastore, DatastoreType, Permissions
from one_preempt.core.model.lease import LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import OpenPreemption
from one_preempt.core.model.plan import Action, ActionKind, Placement, Plan, Preemption, PreemptionEnd, Reason, Victim
from one_preempt.core.model.virtual_machine import LcmState
from tests.core.recounted_cluster import NOW_S, cluster, codes, host, lease, plan, running, waiting, with_vm

STORE = Datastore(0, "system", 0, 0, Permissions(), DatastoreType.SYSTEM, True, True, (0,), 9000, 1500, 7500, None, "")
FIRST, SECOND = running(1, 0, cpus=2), running(2, 1, cpus=2)
GOES_ON = Preemption("8@1", 8, (Victim(1, 1, 0, PreemptionMethod.STOP),), (Placement(8, 0),), "moml", 1, True, 1, 1)
DECIDED = replace(
    GOES_ON,
    id="9@2",
    preemptor_lease_id=9,
    victims=(Victim(2, 2, 1, PreemptionMethod.STOP),),
    placements=(Placement(9, 1),),
)


def _clouds(store: Datastore = STORE) -> ClusterState:
    """Two VMs with 1 GiB of memory each, which two requests would have stopped."""
    suspendable = [lease(one, one, lease_type=LeaseType.BE_SUSPENDABLE) for one in (1, 2)]
    preemptors = [lease(one, one, may_preempt=True) for one in (8, 9)]
    vms = [FIRST, SECOND, waiting(8, cpus=2), waiting(9, cpus=2)]
    state = cluster([host(0, [FIRST]), host(1, [SECOND])], vms, [*suspendable, *preemptors])
    return replace(state, snapshot=replace(state.snapshot, datastores={0: store}))


def _stop(preemption: Preemption) -> Action:
    victim = preemption.victims[0]
    return Action(
        f"{preemption.id}/stop/{victim.vm_id}",
        ActionKind.STOP,
        victim.vm_id,
        victim.lease_id,
        Reason("preempted", "makes room"),
        host_id=victim.host_id,
        preemption_id=preemption.id,
    )


def _both() -> Plan:
    return plan(_stop(GOES_ON), _stop(DECIDED), preemptions=(GOES_ON, DECIDED))


def test_two_of_one_plan_write_to_one_datastore() -> None:
    assert codes(_clouds(), _both()) == ["datastore-overfull"]
    assert codes(_clouds(), plan(_stop(DECIDED), preemptions=(DECIDED,))) == []
    assert codes(_clouds(replace(STORE, free_mib=2049)), _both()) == []


def test_what_is_not_sent_yet_of_a_preemption_that_goes_on_counts() -> None:
    state = replace(_clouds(), preemptions=(OpenPreemption(GOES_ON, NOW_S),))
    newly = plan(_stop(DECIDED), preemptions=(DECIDED,))
    assert codes(state, newly) == ["datastore-overfull"]
    given_up = PreemptionEnd(GOES_ON.id, fulfilled=False, reason=Reason("paused", "paused"))
    assert codes(state, replace(newly, ended_preemptions=(given_up,))) == []


def test_what_is_being_saved_counts_by_whosever_hand() -> None:
    state = with_vm(_clouds(), replace(FIRST, lcm_state=LcmState.SAVE_SUSPEND))
    assert codes(state, plan(_stop(DECIDED), preemptions=(DECIDED,))) == ["datastore-overfull"]


def test_who_is_suspended_on_its_host_is_written_there_as_well() -> None:
    rests, newly = (
        replace(one, victims=(replace(one.victims[0], method=PreemptionMethod.SUSPEND),)) for one in (GOES_ON, DECIDED)
    )
    state = replace(_clouds(), preemptions=(OpenPreemption(rests, NOW_S),))
    assert codes(state, plan(_stop(DECIDED), preemptions=(DECIDED,))) == ["datastore-overfull"]
    suspends = replace(_stop(newly), kind=ActionKind.SUSPEND)
    assert codes(state, plan(suspends, preemptions=(newly,))) == ["datastore-overfull"]


def test_a_datastore_that_would_be_full_to_the_last_mebibyte_is_too_small() -> None:
    assert codes(_clouds(replace(STORE, free_mib=2048)), _both()) == ["datastore-overfull"]
    assert codes(_clouds(replace(STORE, free_mib=2049)), _both()) == []


def test_what_was_decided_upon_before_is_not_held_against_a_plan() -> None:
    open_ones = (OpenPreemption(GOES_ON, NOW_S), OpenPreemption(DECIDED, NOW_S))
    assert codes(replace(_clouds(), preemptions=open_ones), plan(_stop(GOES_ON), _stop(DECIDED))) == []


@pytest.mark.parametrize(
    ("store", "found"),
    [
        (replace(STORE, free_mib=9000, limit_mib=9000), ["datastore-overfull"]),
        (replace(STORE, free_mib=9000, limit_mib=9600), []),
        (replace(STORE, free_mib=0, used_mib=0, total_mib=0), []),
        (replace(STORE, shared=False), []),
    ],
    ids=["below its limit", "under a limit with room", "that nobody has measured", "on each host's own disks"],
)
def test_room_is_that_of_the_datastore(store: Datastore, found: list[str]) -> None:
    state = _clouds(store)
    hosts = {one.id: replace(one, free_disk_mib=1500) for one in state.snapshot.hosts.values()}
    assert codes(replace(state, snapshot=replace(state.snapshot, hosts=hosts)), _both()) == found


def test_a_hosts_part_of_a_datastore_is_measured_where_it_is() -> None:
    state = _clouds(replace(STORE, shared=False))
    full = replace(state.snapshot.hosts[1], datastores=(HostDatastore(0, 900, 9000, 8100),))
    hosts = {**state.snapshot.hosts, 0: replace(state.snapshot.hosts[0], free_disk_mib=1500), 1: full}
    state = replace(state, snapshot=replace(state.snapshot, hosts=hosts))
    assert codes(state, _both()) == ["datastore-overfull"]
