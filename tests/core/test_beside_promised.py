"""What was promised of devices and places beside VM groups: looked at all at once, it is as at each instant anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from one_preempt.core.decide import decide
from one_preempt.core.matching.reasons import Unplaced
from one_preempt.core.matching.room import Room
from one_preempt.core.memory.decision_memory import DecisionMemory
from one_preempt.core.model.plan import Placement
from one_preempt.core.phases.devices_and_groups import beside_promised, tries_per_owner
from one_preempt.core.phases.devices_and_groups.beside_promised import takes_promised, what_it_lacks
from one_preempt.core.phases.devices_and_groups.matched_promises import MatchedPromise, groups_of
from one_preempt.core.phases.devices_and_groups.matched_then import need_matching
from one_preempt.core.phases.devices_and_groups.promises_ahead import promises_ahead, promises_near
from one_preempt.core.phases.devices_and_groups.promises_in_turn import Arrival, arrivals, gone_by, placed_in_turn
from one_preempt.core.phases.draft import PlanDraft
from one_preempt.core.phases.queue.moves import another_host
from tests import scenario_reader
from tests.core.availability.naive import CASES
from tests.core.promised_places import ROLES, WISH, cloud, document, groups, guests, promises, rows, wishes
from tests.counted_work import lines_run


def lacking_at(
    draft: PlanDraft, near: Sequence[MatchedPromise], at_s: int, arriving: Sequence[Any]
) -> Mapping[int, str]:
    """Everybody who is there at an instant is put there anew."""
    active = [one for one in near if one.stay.start_s <= at_s < one.until_s]
    there = [one.placement for one in arriving if one.until_s > at_s]
    gone = gone_by(draft, near, at_s)
    return placed_in_turn(draft, active, there, frozenset(), gone)


def lacks_by_trial(draft: PlanDraft, lease_id: int) -> str | None:
    lease = draft.state.leases[lease_id]
    stay = draft.timeline.stays[lease_id][0]
    near = beside_promised._with_those_near(draft, promises_ahead(draft), lease, stay)
    instants = sorted({one.stay.start_s for one in near if one.stay.start_s >= stay.start_s})
    looks = [lacking_at(draft, near, at_s, arrivals(draft)) for at_s in instants]
    code = next((those[vm_id] for those in looks for vm_id in lease.vm_ids if vm_id in those), None)
    return None if code is None else beside_promised._THINGS[code]


def loses_by_trial(draft: PlanDraft, placed: Sequence[Placement], end_s: int) -> bool:
    """Somebody lacks something at some instant who would not if these were not placed."""
    vms = draft.members(draft.state.leases[WISH])
    at = frozenset(draft.state.hosts.index_by_id[one.host_id] for one in placed)
    near = promises_near(draft, at, groups_of(vms))
    near = [one for one in near if one.stay.start_s < end_s]
    arriving = [Arrival(one, end_s) for one in placed]
    return any(
        lacking_at(draft, near, one.stay.start_s, arriving).keys() - lacking_at(draft, near, one.stay.start_s, ())
        for one in near
    )


# Few hosts and instants, and many that meet there: who ends lets others in, who are in the way of the next.
crowd = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from((None, "a", "b")),
        st.sampled_from((0, 1, 1)),
        st.integers(1, 5),
        st.sampled_from((100, 250, 5000)),
    ),
    min_size=3,
    max_size=9,
)
tied = st.fixed_dictionaries(
    {
        "roles": st.fixed_dictionaries(
            {
                role: st.fixed_dictionaries({"policy": st.sampled_from(("NONE", "AFFINED", "ANTI_AFFINED"))})
                for role in ROLES
            }
        )
    },
    optional={"affined": st.just([["a", "b"]]), "anti_affined": st.just([["b", "c"]])},
)


@settings(derandomize=True, max_examples=CASES // 2, deadline=None)
@given(groups | tied, guests, promises | crowd, wishes, st.lists(rows, min_size=2, max_size=2), st.booleans())
def test_all_instants_looked_at_together_say_what_each_says_alone(
    group: Any, there: Any, promised: Any, wish: Any, host_rows: list[int], are_placed: bool
) -> None:
    state, chosen = cloud(document(group, there, promised, wish))
    draft = PlanDraft.begin(state, chosen, DecisionMemory())
    lease, end_s = state.leases[WISH], scenario_reader.NOW_S + wish[2]
    vms = draft.members(lease)
    there_now = [Placement(vm.id, int(state.hosts.ids[row])) for vm, row in zip(vms, host_rows, strict=False)]
    placed = draft.matchmaker.place_at(vms, there_now, draft.room) if are_placed else ()
    if placed and not isinstance(placed, Unplaced) and need_matching(vms):
        loses = takes_promised(draft, lease, vms, placed, end_s) is not None
        assert loses == loses_by_trial(draft, placed, end_s)
    for lease_id in range(100, 100 + len(promised)):
        if draft.timeline.stays.get(lease_id):
            stay = draft.timeline.stays[lease_id][0]
            assert what_it_lacks(draft, state.leases[lease_id], stay) == lacks_by_trial(draft, lease_id)


def promised_in_turn(promised: int, policy: str, hosts: int) -> dict[str, Any]:
    """VMs of one VM group, each promised a start an hour after the one before and some days of time."""
    vms: dict[int, dict[str, Any]] = {}
    ledger: dict[str, Any] = {"leases": {}, "reservations": {}}
    for number in range(promised):
        start_s = 100000 + 3600 * number
        terms = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": start_s, "DURATION_S": 100000}
        vms[100 + number] = {
            "user": "lea",
            "state": "HOLD",
            "cpu": 0.1,
            "memory": 10,
            "group": [7, "a"],
            "lease": terms,
        }
        ledger["leases"][100 + number] = {"verdict": "accepted"}
        stay = {"start_in_s": start_s, "end_in_s": start_s + 100100, "hosts": [number % hosts], "firm": True}
        ledger["reservations"][100 + number] = [stay]
    return {
        "story": "",
        "hosts": {host_id: {"cpu": 64} for host_id in range(hosts)},
        "vms": vms,
        "vm_groups": {7: {"roles": {"a": {"policy": policy}}}},
        "ledger": ledger,
    }


@pytest.mark.parametrize(("policy", "hosts"), [("NONE", 5), ("ANTI_AFFINED", 40), ("AFFINED", 1)])
def test_each_promise_is_put_beside_those_alone_that_may_take_something_from_it(policy: str, hosts: int) -> None:
    for promised in (30, 60):
        state, chosen = cloud(promised_in_turn(promised, policy, hosts))
        with patch.object(Room, "take", autospec=True, side_effect=Room.take) as takes:
            plan = decide(state, chosen)
        assert not plan.refusals
        # Once each, and those of them once more whose host an earlier one of the group leaves meanwhile.
        assert takes.call_count <= 2 * promised


@pytest.mark.parametrize(("policy", "hosts"), [("NONE", 5), ("ANTI_AFFINED", 40), ("AFFINED", 1)])
def test_who_is_placed_now_is_held_against_those_alone_from_whom_he_may_take_something(policy: str, hosts: int) -> None:
    given = promised_in_turn(60, policy, hosts)
    for vm_id in range(1000, 1010):
        given["vms"][vm_id] = {"user": "paul", "cpu": 0.1, "memory": 10, "group": [7, "a"]}
    state, chosen = cloud(given)
    with patch.object(Room, "take", autospec=True, side_effect=Room.take) as takes:
        decide(state, chosen)
    # What was promised once or twice each; each placement itself, tried on few hosts beside the others that were.
    assert takes.call_count <= 2 * 60 + 10 * 4 * (10 + 3 * 2)


def one_after_the_other(promised: int, policy: str, hosts: int) -> dict[str, Any]:
    """The same, each for a minute or two."""
    given = promised_in_turn(promised, policy, hosts)
    for vm_id, (stay,) in given["ledger"]["reservations"].items():
        given["vms"][vm_id]["lease"]["DURATION_S"] = 60
        stay["end_in_s"] = stay["start_in_s"] + 160
    return given


def for_one_device(promised: int) -> dict[str, Any]:
    given = one_after_the_other(promised, "NONE", 1)
    given["hosts"][0]["gpus"] = [-1]
    for vm in given["vms"].values():
        del vm["group"]
        vm["gpus"] = 1
    return given


def all_are_looked_at(given: dict[str, Any]) -> int:
    """The work of asking for each promise what it lacks."""
    draft = PlanDraft.begin(*cloud(given), DecisionMemory())
    stays = {lease_id: stays[0] for lease_id, stays in draft.timeline.stays.items()}
    return lines_run(lambda: [what_it_lacks(draft, draft.state.leases[one], stay) for one, stay in stays.items()])


def all_matter(given: dict[str, Any]) -> int:
    """The work of finding out who of those promised may be in the way of the last of them."""
    draft = PlanDraft.begin(*cloud(given), DecisionMemory())
    near = promises_near(draft, frozenset(range(len(given["hosts"]))), {7})
    assert beside_promised._who_matter(draft, near, len(near) - 1, ()) == near
    return lines_run(lambda: beside_promised._who_matter(draft, near, len(near) - 1, ()))


def test_promises_at_other_times_are_no_work_to_whoever_has_the_same_device() -> None:
    assert all_are_looked_at(for_one_device(200)) < 2.5 * all_are_looked_at(for_one_device(100))


@pytest.mark.parametrize(
    "given", [lambda promised: one_after_the_other(promised, "AFFINED", 5), for_one_device], ids=["group", "device"]
)
def test_who_meets_with_the_same_is_looked_for_once(given: Callable[[int], dict[str, Any]]) -> None:
    assert all_matter(given(200)) < 2.5 * all_matter(given(100))


def test_beyond_so_many_that_were_put_nobody_is_placed_where_others_were_promised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = promised_in_turn(3, "NONE", 3)
    for vm_id in range(1000, 1003):
        given["vms"][vm_id] = {"user": "paul", "cpu": 0.1, "memory": 10, "group": [7, "a"]}
    state, chosen = cloud(given)
    assert {one.lease_id for one in decide(state, chosen).refusals} == set()
    monkeypatch.setattr(tries_per_owner, "PUT_AN_OWNER", -1)
    assert {one.lease_id for one in decide(state, chosen).refusals} == {1000, 1001, 1002}


@pytest.mark.parametrize("is_promised", [False, True])
def test_a_vm_that_moves_goes_to_no_cores_that_others_were_promised(is_promised: bool) -> None:
    """Whatever it moves for: a victim, a mark of its administrator's, a host that is to sleep."""
    pinned = {"cpu": 2, "topology": {"pin": "CORE", "cpus": 2}}
    host = {"cpu": 8, "attributes": {"PIN_POLICY": "PINNED"}}
    terms = {"TYPE": "DC-NON-PREEMPTABLE", "START_IN_S": 600, "DURATION_S": 7200}
    stay = {"start_in_s": 600, "end_in_s": 7860, "hosts": [1], "firm": True}
    state, chosen = cloud(
        {
            "story": "",
            "hosts": {
                0: host | {"numa": {"nodes": 1, "cores": 2, "pinned": [10, 10]}},
                1: host | {"numa": {"nodes": 1, "cores": 2}},
            },
            "vms": {
                10: pinned | {"user": "eva", "host": 0, "lease": {"TYPE": "DC-MIGRATABLE"}},
                20: pinned | {"user": "lea", "state": "HOLD", "lease": terms},
            },
            "ledger": {"leases": {20: {"verdict": "accepted"}}, "reservations": {20: [stay] if is_promised else []}},
        }
    )
    draft = PlanDraft.begin(state, chosen, DecisionMemory())
    (vm,) = draft.members(state.leases[10])
    found = another_host(draft, state.leases[10], vm, state.hosts.ids != 0)
    assert isinstance(found, Unplaced) == is_promised, found
