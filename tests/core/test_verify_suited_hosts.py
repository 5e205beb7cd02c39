"""Hosts that surely do not suit whoever is given them: read by the recount, and held against other readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.matching.access import AccessRules
from one_preempt.core.matching.expressions.tokens import ExpressionError
from one_preempt.core.matching.options import MatchOptions
from one_preempt.core.matching.placement import Matchmaker
from one_preempt.core.model.access import AclRule, Directory, User
from one_preempt.core.model.cluster_state import ClusterState
from one_preempt.core.model.host import Host
from one_preempt.core.model.infrastructure import Network, Permissions, VmGroup, VmGroupRole
from one_preempt.core.model.lease import LeaseTerms, LeaseType, PreemptionMethod
from one_preempt.core.model.ledger import ActionRecord, OpenPreemption
from one_preempt.core.model.plan import ActionKind, Placement, Plan, Preemption, Victim
from one_preempt.core.model.reservation import Booking, Reservation, Verdict
from one_preempt.core.model.virtual_machine import Nic, Topology
from one_preempt.core.verify import verify
from one_preempt.core.verify.host_access import may_place_on
from one_preempt.core.verify.host_requirements import meets
from one_preempt.core.verify.recounter import Recounter
from tests import scenario_reader
from tests.core.availability.naive import CASES
from tests.core.matching.test_expression_fuzz import expressions, readable
from tests.core.matching.test_requirements import HOST, holds, is_met, objects, trees, written
from tests.core.recounted_cluster import NOW_S, cluster, codes, deploy, host, lease, plan, running, waiting, with_vm
from tests.counted_work import lines_run

UNSUITED = "unsuited-host"


def nobody_knows(_: int) -> None:
    return


# -- requirements ---------------------------------------------------------------------------------------------


@settings(derandomize=True, max_examples=CASES // 2)
@given(trees, objects)
def test_what_is_sure_of_a_requirement_is_what_it_means(tree: tuple[Any, ...], attributes: Any) -> None:
    read = meets(written(tree), replace(host(0), attributes=attributes), nobody_knows, load_is_known=True)
    assert read in (None, holds(tree, attributes)), written(tree)


@pytest.mark.parametrize("load_is_known", [False, True])
@settings(derandomize=True, max_examples=CASES // 2)
@given(text=expressions | readable)
def test_nobody_is_refused_for_words_that_the_matchmaker_reads_otherwise(text: str, load_is_known: bool) -> None:
    attributes = {name: values for name, values in HOST.items() if name not in ("NAME", "ID", "CLUSTER_ID")}
    one = replace(host(7), attributes={**attributes, "ID": ("7",), "NAME": ("node07",)})
    try:
        expected = is_met(text, dict(one.attributes))
    except ExpressionError:
        return
    assert meets(text, one, nobody_knows, load_is_known=load_is_known) in (None, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ('CLUSTER_ID = 0 & !(PUBLIC_CLOUD = YES) & !(PIN_POLICY = PINNED)', True),
        ("(CLUSTER_ID = 1 | CLUSTER_ID = 2) & !(PIN_POLICY = PINNED)", False),
        ('RACK = "B*" & ID > 6', True),
        ("RACK = A", False),
        ("RACK != B", False),
        ("MISSING != 1", False),
        ("!(MISSING = 1)", True),
        ("RACK = A & RACK = A | RACK = B", True),
        ("RACK = B | RACK = B & RACK = A", False),
        ("GPUS @> 4 & LOAD < 0.8", True),
        # What was left to somebody else to say: brackets, several values, what is not written as we read.
        ('RACK = "[A]"', None),
        ("GPUS = 4", None),
        ("RACK = A | RACK ~ B", None),
        ('"/HOST/TEMPLATE/RACK" = A', None),
        # Whatever is not known, it is not met.
        ('RACK = A & RACK = "[A]"', False),
        # What will be there later nobody knows; the same is looked at where somebody comes now.
        ("RUNNING_VMS > 3", None),
        ("FREE_CPU < 251 | CURRENT_VMS = 4", None),
        ("A = 1 | " * 600 + "A = 1", None),
    ],
)  # fmt: skip
def test_a_requirement_is_met_or_not_or_that_is_not_known(text: str, expected: bool | None) -> None:
    attributes = {path: values for path, values in HOST.items() if path not in ("CLUSTER_ID", "CLUSTER_TEMPLATE/RACK")}
    one = replace(host(7), attributes=attributes)
    assert meets(text, one, nobody_knows, load_is_known=False) is expected


def test_long_values_are_not_looked_at() -> None:
    one = replace(host(0), attributes={"TEMPLATE/NOTE": ("a" * 5000,)})
    assert meets('NOTE = "' + "*a" * 500 + 'b"', one, nobody_knows, load_is_known=True) is None


# -- access ---------------------------------------------------------------------------------------------------

scopes = st.sampled_from((1 << 32, 1 << 33, 1 << 34, 1 << 35))
fields = st.builds(lambda scope, number: scope | number, scopes, st.integers(0, 3))
things = st.builds(lambda kind, field: kind | field, st.sampled_from((1 << 37, 1 << 36, 3 << 36)), fields)
acl_rules = st.lists(
    st.tuples(fields, things, st.integers(0, 3), st.sampled_from((1 << 34, 1 << 32, 1 << 32 | 1))),
    min_size=1,
    max_size=4,
)


@settings(derandomize=True, max_examples=CASES // 2)
@given(acl_rules, st.integers(0, 3), st.integers(0, 3), st.lists(st.integers(0, 3), max_size=2))
def test_access_is_granted_as_by_the_matchmaker(rules: Any, uid: int, gid: int, group_ids: list[int]) -> None:
    packed = tuple(AclRule(number, *fields) for number, fields in enumerate(rules))
    user = User(uid, "ann", gid, "users", tuple(group_ids))
    vm = replace(waiting(1), uid=uid, gid=gid)
    hosts = [replace(host(number), cluster_id=3 - number) for number in range(4)]
    state = cluster(hosts, [vm])
    snapshot = replace(state.snapshot, directory=Directory({uid: user}, {}, packed))
    access = AccessRules(snapshot.directory, 0)
    ids, clusters = np.array([one.id for one in hosts]), np.array([one.cluster_id for one in hosts])
    allowed = access.hosts(access.owner_of(vm), ids, clusters).tolist()
    assert [may_place_on(snapshot, vm, one) for one in hosts] == allowed


# -- plans ----------------------------------------------------------------------------------------------------


def racks(**of_vm: Any) -> ClusterState:
    """Hosts 0 and 1 in racks A and B, and VM 1, which waits and is to be on B."""
    hosts = [replace(host(number), attributes={"TEMPLATE/RACK": (rack,)}) for number, rack in enumerate("AB")]
    vm = replace(waiting(1), sched_requirements="RACK = B")
    return cluster(hosts, [replace(vm, **of_vm), running(9, 1)])


def test_who_comes_now_comes_to_no_host_that_does_not_suit_him() -> None:
    assert codes(racks(), plan(deploy(1, 1))) == []
    assert codes(racks(), plan(deploy(1, 0))) == [UNSUITED]
    suit_nobody = {
        "PUBLIC_CLOUD = YES": {0, 1},
        "CURRENT_VMS = 9": {0},
        "CURRENT_VMS != 9": {1},
        "RUNNING_VMS < 1": {1},
    }
    for text, unsuited in suit_nobody.items():
        state = racks(sched_requirements=text)
        state = with_hosts(state, replace(state.snapshot.hosts[1], running_vms=1, vm_ids=(9,)))
        for host_id in (0, 1):
            assert codes(state, plan(deploy(1, host_id))) == [UNSUITED] * (host_id in unsuited), text


def with_hosts(state: ClusterState, *hosts: Host) -> ClusterState:
    changed = {**state.snapshot.hosts, **{one.id: one for one in hosts}}
    return replace(state, snapshot=replace(state.snapshot, hosts=changed))


def test_beside_whom_one_comes_is_not_known_where_that_one_comes_or_goes() -> None:
    state = racks(sched_requirements="CURRENT_VMS = 2")
    state = cluster([*state.snapshot.hosts.values()], [*state.snapshot.vms.values(), waiting(2)])
    assert codes(state, plan(deploy(1, 1))) == [UNSUITED]
    assert codes(state, plan(deploy(2, 1), deploy(1, 1))) == []


def test_pinned_hosts_and_networks_out_of_reach_are_no_hosts_for_others() -> None:
    pinned = replace(host(1), attributes={"TEMPLATE/RACK": ("B",), "TEMPLATE/PIN_POLICY": ("PINNED",)})
    for of_vm, expected in (({}, [UNSUITED]), ({"topology": Topology(1, 1, "CORE", None, None)}, [])):
        assert codes(with_hosts(racks(**of_vm), pinned), plan(deploy(1, 1))) == expected
    state = racks(nics=(Nic(0, 5, automatic=True),))
    for cluster_ids, expected in (((0,), []), ((7,), [UNSUITED])):
        network = Network(5, "net", 0, 0, Permissions(), cluster_ids, 10, 0)
        there = replace(state, snapshot=replace(state.snapshot, networks={5: network}))
        assert codes(there, plan(deploy(1, 1))) == expected


def test_whoever_may_not_use_a_host_is_not_brought_there() -> None:
    """The owner is in no group that a rule names, then in one."""
    rule = AclRule(1, 1 << 33 | 100, 1 << 37 | 1 << 34, 2, 1 << 34)
    for gid, expected in ((101, [UNSUITED]), (100, [])):
        user = User(5, "ann", gid, "users", (gid,))
        state = racks()
        state = replace(state, snapshot=replace(state.snapshot, directory=Directory({5: user}, {}, (rule,))))
        assert codes(state, plan(deploy(1, 1))) == expected


def promised(state: ClusterState, *host_ids: int, at_s: int = 60) -> Booking:
    return Booking(1, (Reservation(1, NOW_S + at_s, NOW_S + at_s + 60, host_ids, firm=True),))


def with_a_start(state: ClusterState) -> ClusterState:
    terms = LeaseTerms(start_at_s=NOW_S + 60, duration_s=60)
    accepted = replace(lease(1), terms=terms, verdict=Verdict.ACCEPTED)
    return replace(state, leases={**state.leases, 1: accepted})


def test_nobody_is_promised_a_host_that_does_not_suit_him() -> None:
    state = with_a_start(racks())
    for host_id, expected in ((1, []), (0, [UNSUITED])):
        assert codes(state, replace(plan(), bookings=(promised(state, host_id),))) == expected
    # Nor are those who wait in the queue.
    soft = Booking(1, (Reservation(1, NOW_S + 60, None, (0,)),))
    assert codes(racks(), replace(plan(), bookings=(soft,))) == [UNSUITED]


def test_what_was_promised_before_a_host_changed_may_be_promised_at_another_time() -> None:
    state = with_a_start(racks())
    standing = promised(state, 0).reservations
    state = replace(state, reservations={1: standing})
    assert codes(state, replace(plan(), bookings=(promised(state, 0),))) == []


def test_nobody_is_promised_a_host_from_which_his_role_keeps_away() -> None:
    for role, expected in (
        (VmGroupRole(0, "r", "NONE", (1,), host_affined=(1,)), {0}),
        (VmGroupRole(0, "r", "NONE", (1,), host_anti_affined=(1,)), {1}),
    ):
        state = with_a_start(racks(sched_requirements="", vm_group_id=7, vm_group_role="r"))
        groups = {7: VmGroup(7, "g", (role,))}
        state = replace(state, snapshot=replace(state.snapshot, vm_groups=groups))
        for host_id in (0, 1):
            found = codes(state, replace(plan(), bookings=(promised(state, host_id),)))
            assert found == [UNSUITED] * (host_id in expected)


def test_nobody_is_promised_a_host_for_a_load_that_nobody_knows_yet() -> None:
    for text in ("RUNNING_VMS > 5", "CURRENT_VMS = 77", 'RACK = "[A]"'):
        state = with_a_start(racks(sched_requirements=text))
        assert codes(state, replace(plan(), bookings=(promised(state, 0),))) == []


def preemption_of(host_id: int, target_host_id: int | None = None) -> Preemption:
    victim = Victim(9, 9, 1, PreemptionMethod.LIVE_MIGRATE, target_host_id)
    return Preemption("p", 1, (victim,), (Placement(1, host_id),), "moml", 0, True, 0, NOW_S)


def preempting(state: ClusterState) -> ClusterState:
    victim = lease(9, 9, lease_type=LeaseType.DC_MIGRATABLE)
    return replace(state, leases={**state.leases, 1: lease(1, 1, may_preempt=True), 9: victim})


def test_no_room_is_made_on_a_host_that_does_not_suit_and_nobody_moves_to_one() -> None:
    state = preempting(racks())
    assert codes(state, plan(preemptions=(preemption_of(1, 0),))) == []
    assert codes(state, plan(preemptions=(preemption_of(0, 0),))) == ["leaves-in-vain", UNSUITED]
    choosy = with_vm(state, replace(state.snapshot.vms[9], sched_requirements="RACK = B"))
    assert codes(choosy, plan(preemptions=(preemption_of(1, 0),))) == [UNSUITED]


def test_what_was_decided_before_a_host_changed_goes_on() -> None:
    state = preempting(racks())
    start = replace(deploy(1, 0), preemption_id="p")
    assert codes(state, plan(start)) == [UNSUITED]
    opened = replace(state, preemptions=(OpenPreemption(preemption_of(0), NOW_S),))
    assert codes(opened, plan(start)) == []
    record = ActionRecord("deploy/1", ActionKind.DEPLOY, 1, 1, None, 0, None, "fits", "has room", NOW_S)
    assert codes(replace(state, actions={"deploy/1": record}), plan(deploy(1, 0))) == []


# -- what the scheduler decides -------------------------------------------------------------------------------

REQUIREMENTS = (
    "", "RACK = A", 'RACK != "A"', "RACK = A | ID = 2", '!(RACK = "B*") & SIZE > 1', "CLUSTER_ID = 1", 'RACK = "[AB]"',
    "CURRENT_VMS = 10", "CURRENT_VMS != 10", "RUNNING_VMS < 1", "CPU_USAGE > 50", "RACK ~ A",
)  # fmt: skip
of_hosts = st.fixed_dictionaries(
    {"cpu": st.integers(1, 3), "cluster": st.integers(0, 1)},
    optional={
        "attributes": st.fixed_dictionaries(
            {"RACK": st.sampled_from("AB")}, optional={"SIZE": st.integers(1, 2), "PIN_POLICY": st.just("PINNED")}
        )
    },
)
of_guests = st.fixed_dictionaries(
    {"user": st.sampled_from(("eva", "evan", "paul")), "host": st.integers(0, 2), "cpu": st.integers(1, 2)}
)
terms = st.sampled_from(
    (
        {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 600, "DURATION_S": 600},
        {"TYPE": "DC-MIGRATABLE", "DEADLINE_IN_S": 9000, "DURATION_S": 600},
        {"TYPE": "BE-SUSPENDABLE", "DURATION_S": 300},
    )
)
of_wishes = st.fixed_dictionaries(
    {"user": st.sampled_from(("lea", "eva", "paul")), "requirements": st.sampled_from(REQUIREMENTS)},
    optional={"terms": terms, "cpu": st.integers(1, 2), "automatic": st.just("!(PIN_POLICY = PINNED)")},
)
acls = st.sampled_from(
    (None, ["@100 HOST/* MANAGE", "@101 HOST/#1 MANAGE", "@102 HOST/%1 MANAGE", "* DATASTORE/* USE"])
)


def asked_for(hosts: Any, there: Any, wishes: Any, acl: Any, backfilling: str) -> dict[str, Any]:
    """A cloud of three hosts with racks and clusters, who is there, and wishes for some of them."""
    vms: dict[int, Any] = {number: dict(one) for number, one in enumerate(there, 10)}
    for number, one in enumerate(wishes, 100):
        wish = {name: value for name, value in one.items() if name != "terms"}
        vms[number] = wish | ({"state": "HOLD", "lease": one["terms"]} if "terms" in one else {})
    clouds = {"hosts": dict(enumerate(hosts)), "vms": vms, "clusters": {1: {}}}
    stores = {"datastores": {100: {"clusters": [0, 1]}}}
    rules = {} if acl is None else {"acl": acl}
    return {"story": "", **clouds, **stores, **rules, "settings": {"time": {"backfilling": backfilling}}}


def on_other_hosts(made: Plan, host_ids: Iterable[int]) -> Iterator[tuple[int, int, Plan]]:
    """The plan with one start, or one promise, on another host: the VM, the host, and the plan."""
    for number, action in enumerate(made.actions):
        if action.kind is ActionKind.DEPLOY:
            for host_id in host_ids:
                others = (*made.actions[:number], *made.actions[number + 1 :])
                yield action.vm_id, host_id, replace(made, actions=(*others, replace(action, host_id=host_id)))
    for number, booking in enumerate(made.bookings):
        if booking.reservations and booking.reservations[0].host_ids:
            first, *rest = booking.reservations
            for host_id in host_ids:
                moved = Booking(booking.lease_id, (replace(first, host_ids=(host_id,)), *rest))
                others_too = (*made.bookings[:number], *made.bookings[number + 1 :], moved)
                yield booking.lease_id, host_id, replace(made, bookings=others_too)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    st.lists(of_hosts, min_size=3, max_size=3),
    st.lists(of_guests, max_size=3),
    st.lists(of_wishes, min_size=1, max_size=4),
    acls,
    st.sampled_from(("easy", "conservative")),
)
def test_what_is_decided_suits_and_on_a_host_that_does_not_it_is_refused(
    hosts: Any, there: Any, wishes: Any, acl: Any, backfilling: str
) -> None:
    decided = scenario_reader.play(asked_for(hosts, there, wishes, acl, backfilling))
    assert decided.violations == ()
    state = decided.state
    matchmaker = Matchmaker(state.snapshot, state.hosts, MatchOptions())
    for vm_id, host_id, moved in on_other_hosts(decided.plan, range(3)):
        vm = state.snapshot.vms[vm_id]
        is_sure = not any(word in vm.sched_requirements for word in ("CURRENT_VMS", "RUNNING", "USAGE", "[", "~"))
        suits = bool(matchmaker.match(vm).mask[host_id])
        refused = UNSUITED in {one.code for one in verify(state, moved)}
        assert refused <= (not suits or not is_sure)
        assert refused >= (is_sure and not suits), (vm.sched_requirements, host_id)


# -- what is kept ---------------------------------------------------------------------------------------------


def crowd(count: int, text: str) -> tuple[ClusterState, Any]:
    vms = [replace(waiting(number, cpus=0, gib=0), sched_requirements=text) for number in range(1, count + 1)]
    state = cluster([replace(host(0), attributes={"TEMPLATE/RACK": ("B",)})], vms)
    return state, plan(*[deploy(vm.id, 0) for vm in vms])


def test_what_suits_one_suits_all_who_ask_for_the_same() -> None:
    text = " | ".join(["RACK = A"] * 100 + ["RACK = B"])
    few, many = (crowd(count, text) for count in (1, 51))
    spared = lines_run(lambda: codes(*many)) - lines_run(lambda: codes(*few))
    assert spared / 50 < lines_run(lambda: meets(text, few[0].snapshot.hosts[0], nobody_knows, load_is_known=False)) / 4


def test_what_was_found_holds_for_the_host_as_it_was() -> None:
    recounter = Recounter()
    state = replace(racks(), changed_lease_ids=frozenset())
    state = replace(state, snapshot=replace(state.snapshot, changed_vm_ids=frozenset()))
    assert recounter.verify(state, plan(deploy(1, 1))) == ()
    turned = with_hosts(state, replace(state.snapshot.hosts[1], attributes={"TEMPLATE/RACK": ("A",)}))
    assert [one.code for one in recounter.verify(turned, plan(deploy(1, 1)))] == [UNSUITED]
    assert recounter.verify(state, plan(deploy(1, 1))) == ()
    rule = AclRule(1, 1 << 33 | 100, 1 << 37 | 1 << 34, 2, 1 << 34)
    user = User(5, "ann", 101, "users", (101,))
    ruled = replace(state, snapshot=replace(state.snapshot, directory=Directory({5: user}, {}, (rule,))))
    assert [one.code for one in recounter.verify(ruled, plan(deploy(1, 1)))] == [UNSUITED]
