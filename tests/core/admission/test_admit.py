from __future__ import annotations

import dataclasses
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.admission.admit import Admission
from one_preempt.core.admission.rules import AdmissionRules, BeyondRights, GroupRights, LeaseRule, VmMatch
from one_preempt.core.model.lease import Lease, LeaseState, LeaseTerms, LeaseType
from one_preempt.core.model.ledger import LeaseRecord
from one_preempt.core.model.virtual_machine import AttributeValue, VirtualMachine, VmState
from tests.core.admission import lease_requests
from tests.core.admission.lease_requests import GENEROUS, NOW_S, admitted

SUSPENDABLE = LeaseTerms(type=LeaseType.BE_SUSPENDABLE)
GANG = {"TYPE": "BE-SUSPENDABLE", "NAME": "pair", "SIZE": "2"}


def vm(vm_id: int, *leases: AttributeValue, state: VmState = VmState.PENDING, **template: str) -> VirtualMachine:
    """A VM of user 5 (ann) in group 100 (users) with these LEASE attributes and user template texts."""
    user_template: dict[str, tuple[AttributeValue, ...]] = {name: (text,) for name, text in template.items()}
    if leases:
        user_template["LEASE"] = leases
    return replace(lease_requests.vm(vm_id, None, state), user_template=user_template)


def lease_of(admission: Admission, vm_id: int) -> Lease:
    (lease,) = [lease for lease in admission.leases if vm_id in lease.vm_ids]
    return lease


def records_of(admission: Admission) -> dict[int, LeaseRecord]:
    return {record.id: record for record in admission.records}


def test_without_rules_every_vm_is_a_lease_that_nobody_may_preempt() -> None:
    admission = admitted(vm(1), vm(2, state=VmState.ACTIVE), rules=AdmissionRules())
    assert [(lease.id, lease.vm_ids, lease.terms) for lease in admission.leases] == [
        (1, (1,), LeaseTerms()),
        (2, (2,), LeaseTerms()),
    ]
    assert not any(lease.may_preempt or lease.explicit for lease in admission.leases)
    assert admission.records == ()


@pytest.mark.parametrize(
    ("attribute", "code"),
    [
        ({"TYPE": "BE-SUSPENDABLE"}, "type-not-granted"),
        ({"TYPE": "BE-CANCELLABLE"}, "type-not-granted"),
        ({"TYPE": "DC-MIGRATABLE"}, "type-not-granted"),
        ({"TYPE": "DC-NON-PREEMPTABLE", "START": "+01:00:00"}, "start-not-granted"),
        ({"TYPE": "DC-NON-PREEMPTABLE", "START": "2020-01-01T00:00:00Z"}, "start-not-granted"),
        (
            {"TYPE": "DC-NON-PREEMPTABLE", "DURATION": "01:00:00", "DEADLINE": "2030-01-01T00:00:00Z"},
            "start-not-granted",
        ),
        ({"TYPE": "DC-NON-PREEMPTABLE", "NAME": "n", "SIZE": "2"}, "size-not-granted"),
        ({"TYPE": "DC-NON-PREEMPTABLE", "SIZE": "many"}, "lease-size"),
    ],
)
def test_without_rules_a_claim_waits_on_hold_and_says_why(attribute: dict[str, str], code: str) -> None:
    admission = admitted(vm(1, attribute), rules=AdmissionRules())
    lease = lease_of(admission, 1)
    assert (lease.state, lease.refusal_code, lease.explicit) == (LeaseState.REFUSED, code, True)
    assert lease.terms == LeaseTerms()
    assert admission.records == ()


def test_without_rules_what_every_vm_is_may_be_claimed() -> None:
    lease = lease_of(admitted(vm(1, {"TYPE": "DC-NON-PREEMPTABLE"}), rules=AdmissionRules()), 1)
    assert (lease.state, lease.explicit, lease.may_preempt) == (LeaseState.WAITING, True, False)


def test_a_granted_claim_is_recorded_with_its_terms() -> None:
    admission = admitted(vm(1, {"TYPE": "BE-SUSPENDABLE", "DURATION": "01:00:00", "MAX_SUSPENSIONS": "3"}))
    terms = LeaseTerms(type=LeaseType.BE_SUSPENDABLE, duration_s=3600, max_suspensions=3)
    assert lease_of(admission, 1).terms == terms
    assert admission.records == (
        LeaseRecord(
            id=1,
            terms=terms,
            uid=5,
            gid=100,
            vm_ids=(1,),
            explicit=True,
            may_preempt=False,
            admitted_at_s=NOW_S,
            arrived_at_s=NOW_S - 999,
        ),
    )


def test_an_admitted_lease_is_not_recorded_again() -> None:
    vms = vm(1, {"TYPE": "BE-SUSPENDABLE"}), vm(2)
    first = admitted(*vms)
    second = admitted(*vms, records=records_of(first))
    assert (second.records, second.notes) == ((), ())
    assert second.leases == first.leases


def test_a_relative_start_is_counted_from_the_admission_and_then_stands() -> None:
    one = vm(1, {"TYPE": "DC-NON-PREEMPTABLE", "START": "+01:00:00"})
    first = admitted(one)
    assert lease_of(first, 1).terms.start_at_s == NOW_S + 3600
    later = admitted(one, records=records_of(first), now_s=NOW_S + 60)
    assert lease_of(later, 1).terms.start_at_s == NOW_S + 3600
    assert (later.records, later.notes) == ((), ())


@pytest.mark.parametrize(
    ("rights", "attribute", "code"),
    [
        ({"max_size": 1}, GANG, "size-not-granted"),
        ({"max_duration_s": 3599}, {"TYPE": "BE-SUSPENDABLE", "DURATION": "01:00:00"}, "duration-not-granted"),
        ({"max_ahead_s": 3599}, {"TYPE": "BE-SUSPENDABLE", "START": "+01:00:00"}, "start-not-granted"),
        ({"max_ahead_s": 3599}, {"TYPE": "BE-SUSPENDABLE", "START": "2030-01-01T00:00:00Z"}, "start-not-granted"),
        ({"max_leases": 0}, {"TYPE": "BE-SUSPENDABLE"}, "leases-not-granted"),
    ],
)
def test_caps_of_a_group_are_kept(rights: dict[str, int], attribute: dict[str, str], code: str) -> None:
    capped = GroupRights("capped", group="100", may_claim=(LeaseType.BE_SUSPENDABLE,))
    rules = AdmissionRules(rights=(replace(capped, **rights),))
    assert lease_of(admitted(vm(1, attribute), rules=rules), 1).refusal_code == code


def test_leases_are_counted_by_user_oldest_first() -> None:
    rules = AdmissionRules(rights=(GroupRights("one", user="ann", may_claim=tuple(LeaseType), max_leases=1),))
    older, newer = (vm(number, {"TYPE": "BE-SUSPENDABLE"}) for number in (1, 2))
    admission = admitted(newer, older, rules=rules)
    assert [record.id for record in admission.records] == [1]
    assert lease_of(admission, 2).refusal_code == "leases-not-granted"
    again = admitted(older, newer, rules=rules, records=records_of(admission))
    assert lease_of(again, 2).refusal_code == "leases-not-granted"


@pytest.mark.parametrize("state", [VmState.PENDING, VmState.ACTIVE])
def test_a_vm_of_a_rule_gets_its_lease_attribute_granted_only_up_to_max_leases(state: VmState) -> None:
    """Whoever writes it later has no more leases than whoever writes it at once."""
    rights = GroupRights("one", user="ann", may_claim=tuple(LeaseType), max_leases=2)
    rules = AdmissionRules(rules=(LeaseRule("all", VmMatch(group="users"), SUSPENDABLE.type),), rights=(rights,))
    before = admitted(*(vm(number, state=state) for number in (1, 2, 3, 4)), rules=rules)
    asking = [vm(number, {"TYPE": "DC-MIGRATABLE"}, state=state) for number in (1, 2, 3, 4)]
    changed = admitted(*asking, rules=rules, records=records_of(before))
    assert [lease.terms.type for lease in changed.leases] == [LeaseType.DC_MIGRATABLE] * 2 + [SUSPENDABLE.type] * 2
    told = "the terms of lease 3 stay as admitted: its owner has the 2 leases that are granted: end one"
    assert told in [note.text for note in changed.notes]
    again = admitted(*asking, rules=rules, records=records_of(before) | records_of(changed))
    assert again.leases == changed.leases


def test_whoever_fell_back_gets_no_more_leases_than_are_granted_and_preempts_nobody() -> None:
    """A claim too many first, and one that is granted afterwards, is no way around max_leases."""
    rights = GroupRights("one", user="ann", may_preempt=True, max_leases=1)
    rules = AdmissionRules(rights=(rights,), beyond_rights=BeyondRights.FALL_BACK)
    before = admitted(*(vm(number, {"TYPE": "BE-SUSPENDABLE"}) for number in (1, 2)), rules=rules)
    assert [record.may_preempt for record in before.records] == [False, False]
    for claim in ({"TYPE": "DC-NON-PREEMPTABLE"}, {"TYPE": "DC-NON-PREEMPTABLE", "DURATION": "01:00:00"}):
        asking = [vm(number, claim) for number in (1, 2)]
        changed = admitted(*asking, rules=rules, records=records_of(before))
        assert [lease.may_preempt for lease in changed.leases] == [False, False]
        assert changed.notes[0].text.endswith("its owner has the 1 leases that are granted: end one")
        alone = admitted(asking[0], rules=rules, records={1: records_of(before)[1]})
        assert lease_of(alone, 1).may_preempt


def test_leases_of_another_group_are_counted_where_they_come_to() -> None:
    """Who is in two groups brings no more leases from the one than he may have in the other."""
    rules = AdmissionRules(rights=(GroupRights("urgent", group="urgent", may_preempt=True, max_leases=1),))
    lease = {"TYPE": "DC-NON-PREEMPTABLE"}
    before = admitted(vm(1, lease), vm(2, lease), rules=rules)
    there = [replace(vm(number, lease), gid=101, gname="urgent") for number in (1, 2)]
    assert [lease.may_preempt for lease in admitted(*there, rules=rules, records=records_of(before)).leases] == [
        False,
        False,
    ]
    assert lease_of(admitted(there[0], rules=rules, records={1: records_of(before)[1]}), 1).may_preempt


@pytest.mark.parametrize("lease", [{"TYPE": "SPOT"}, {"TYPE": "DC-NON-PREEMPTABLE", "SIZE": "2", "NAME": "x"}])
def test_a_lease_attribute_that_does_not_count_lets_nobody_preempt(lease: dict[str, str]) -> None:
    rule = LeaseRule("hour", VmMatch(group="users"), duration_s=3600)
    rules = AdmissionRules(rules=(rule,), rights=(GroupRights("one", user="ann", may_preempt=True, max_leases=0),))
    before = admitted(vm(1), rules=rules)
    changed = admitted(vm(1, lease), rules=rules, records=records_of(before))
    assert [note.code for note in changed.notes] == ["change-refused"]
    assert not lease_of(changed, 1).may_preempt
    running = admitted(vm(1, lease, state=VmState.ACTIVE), rules=rules)
    assert not lease_of(running, 1).may_preempt


def test_a_lease_attribute_that_repeats_a_rule_counts_as_one() -> None:
    rule = LeaseRule("hour", VmMatch(group="users"), duration_s=3600)
    rules = AdmissionRules(rules=(rule,), rights=(GroupRights("one", user="ann", may_preempt=True, max_leases=1),))
    before = admitted(vm(1), vm(2), rules=rules)
    repeating = {"TYPE": "DC-NON-PREEMPTABLE", "DURATION": "01:00:00"}
    changed = admitted(vm(1, repeating), vm(2, repeating), rules=rules, records=records_of(before))
    assert [(lease.explicit, lease.may_preempt) for lease in changed.leases] == [(True, True), (False, False)]


def test_the_first_rights_that_match_count() -> None:
    rules = AdmissionRules(
        rights=(GroupRights("ann", user="ann"), GroupRights("users", group="users", may_claim=tuple(LeaseType)))
    )
    assert lease_of(admitted(vm(1, {"TYPE": "BE-SUSPENDABLE"}), rules=rules), 1).state is LeaseState.REFUSED


def test_falling_back_serves_a_claim_as_a_plain_vm() -> None:
    rules = AdmissionRules(beyond_rights=BeyondRights.FALL_BACK)
    admission = admitted(vm(1, {"TYPE": "BE-CANCELLABLE"}), rules=rules)
    lease = lease_of(admission, 1)
    assert (lease.state, lease.terms, lease.explicit) == (LeaseState.WAITING, LeaseTerms(), True)
    assert [note.code for note in admission.notes] == ["fell-back"]
    records = {record.id: record for record in admission.records}
    again = admitted(vm(1, {"TYPE": "DC-MIGRATABLE"}), rules=rules, records=records)
    assert (again.records, again.notes) == ((), ())
    assert lease_of(again, 1).terms == LeaseTerms()
    for attribute in ({"TYPE": "SPOT"}, {"TYPE": "BE-CANCELLABLE", "START": "now"}):
        refused = admitted(vm(1, attribute), rules=rules, records=records)
        assert [note.code for note in refused.notes] == ["change-refused"]
    granted = admitted(
        vm(1, {"TYPE": "BE-CANCELLABLE"}),
        rules=dataclasses.replace(GENEROUS, beyond_rights=BeyondRights.FALL_BACK),
        records=records,
    )
    assert lease_of(granted, 1).terms.type is LeaseType.BE_CANCELLABLE
    standing = {record.id: record for record in granted.records}
    beyond = admitted(vm(1, {"TYPE": "DC-MIGRATABLE"}), rules=rules, records=standing)
    assert lease_of(beyond, 1).terms.type is LeaseType.BE_CANCELLABLE
    assert [note.code for note in beyond.notes] == ["change-refused"]


def test_falling_back_leaves_what_a_rule_gives() -> None:
    """A claim that is not granted protects nobody from the rule that is for his VMs."""
    rule = LeaseRule("all", VmMatch(group="users"), LeaseType.BE_SUSPENDABLE)
    rules = AdmissionRules(rules=(rule,), beyond_rights=BeyondRights.FALL_BACK)
    claim = vm(1, {"TYPE": "DC-NON-PREEMPTABLE"})
    admission = admitted(claim, rules=rules)
    assert (lease_of(admission, 1).terms, lease_of(admission, 1).explicit) == (SUSPENDABLE, True)
    assert [note.code for note in admission.notes] == ["fell-back"]
    again = admitted(claim, rules=rules, records=records_of(admission))
    assert (again.records, again.notes, again.leases) == ((), (), admission.leases)


def test_nobody_who_asked_for_more_falls_back_to_what_may_be_terminated() -> None:
    rule = LeaseRule("spot", VmMatch(group="users"), LeaseType.BE_CANCELLABLE)
    rules = AdmissionRules(rules=(rule,), beyond_rights=BeyondRights.FALL_BACK)
    claim = vm(1, {"TYPE": "DC-MIGRATABLE"})
    assert lease_of(admitted(claim, rules=rules), 1).state is LeaseState.REFUSED


@pytest.mark.parametrize(
    "attribute",
    [
        {"TYPE": "BE-CANCELLABLE", "START": "+01:00:00"},
        {"TYPE": "BE-CANCELLABLE", "START": "2030-01-01T00:00:00Z"},
        {"TYPE": "BE-CANCELLABLE", "START": "now"},
        {"TYPE": "DC-MIGRATABLE", "DURATION": "01:00:00", "DEADLINE": "2030-01-01T00:00:00Z"},
        GANG,
        {"TYPE": "SPOT"},
    ],
)
def test_falling_back_never_ignores_start_or_size_nor_guesses(attribute: dict[str, str]) -> None:
    rules = AdmissionRules(beyond_rights=BeyondRights.FALL_BACK)
    assert lease_of(admitted(vm(1, attribute), rules=rules), 1).state is LeaseState.REFUSED


def test_a_vm_that_runs_already_goes_on_as_a_plain_vm_when_its_claim_is_refused() -> None:
    admission = admitted(vm(1, {"TYPE": "SPOT"}, state=VmState.ACTIVE))
    lease = lease_of(admission, 1)
    assert (lease.state, lease.terms, lease.refusal_code) == (LeaseState.WAITING, LeaseTerms(), "lease-type")
    assert [note.code for note in admission.notes] == ["lease-type"]


def test_rules_give_types_by_attribute_user_group_and_template() -> None:
    rules = AdmissionRules(
        rules=(
            LeaseRule("batch", VmMatch(attributes={"CLASS": "batch-*"}), type=LeaseType.BE_SUSPENDABLE),
            LeaseRule("urgent", VmMatch(user="ann", group="users", attributes={"CLASS": "urgent"}), may_preempt=True),
            LeaseRule("image", VmMatch(template_id=42), type=LeaseType.BE_CANCELLABLE, shielded_by_lock=False),
            LeaseRule("others", VmMatch(user="6"), type=LeaseType.DC_MIGRATABLE),
        )
    )
    admission = admitted(
        vm(1, CLASS="batch-7"),
        vm(2, CLASS="urgent"),
        replace(vm(3), template_id=42),
        replace(vm(4), uid=6, uname="bob"),
        replace(vm(5, CLASS="urgent"), uid=7, uname="eve"),
        rules=rules,
    )
    found = {r.id: (r.rule, r.terms.type, r.may_preempt, r.shielded_by_lock, r.explicit) for r in admission.records}
    assert found == {
        1: ("batch", LeaseType.BE_SUSPENDABLE, False, True, False),
        2: ("urgent", LeaseType.DC_NON_PREEMPTABLE, True, True, False),
        3: ("image", LeaseType.BE_CANCELLABLE, False, False, False),
        4: ("others", LeaseType.DC_MIGRATABLE, False, True, False),
    }
    assert lease_of(admission, 5).terms == LeaseTerms()


def test_rights_let_a_lease_preempt_and_leave_plain_vms_alone() -> None:
    rules = AdmissionRules(rights=(GroupRights("urgent", group="users", may_preempt=True),))
    admission = admitted(vm(1, {"TYPE": "DC-NON-PREEMPTABLE"}), vm(2), rules=rules)
    assert [lease.may_preempt for lease in admission.leases] == [True, False]


def test_the_oldest_vms_of_a_gang_form_one_lease_and_the_others_are_refused() -> None:
    admission = admitted(vm(9, GANG), vm(4, GANG), vm(7, GANG))
    assert lease_of(admission, 4).vm_ids == (4, 7)
    assert [(record.id, record.arrived_at_s) for record in admission.records] == [(4, NOW_S - 993)]
    extra = lease_of(admission, 9)
    assert (extra.state, extra.refusal_code) == (LeaseState.REFUSED, "lease-complete")
    assert "(4, 7)" in extra.refusal_text


def test_a_gang_that_is_not_complete_waits() -> None:
    admission = admitted(vm(4, GANG), replace(vm(5, GANG), uid=6), vm(6, GANG, state=VmState.DONE))
    lease = lease_of(admission, 4)
    assert (lease.state, lease.vm_ids) == (LeaseState.INCOMPLETE, (4,))
    assert lease.refusal_text == "1 of the 2 VMs of lease 'pair' exist: create the others with the same LEASE attribute"
    assert admission.records == ()


def test_vms_with_the_same_name_and_other_terms_are_no_gang() -> None:
    admission = admitted(vm(4, GANG), vm(5, GANG | {"DURATION": "01:00:00"}))
    assert lease_of(admission, 4).state is LeaseState.INCOMPLETE
    assert "VM 5 has this NAME too, but another DURATION: they must be equal" in lease_of(admission, 4).refusal_text
    later = {"START": "+01:00:00", "SHUTDOWN_OK": "YES"}
    admission = admitted(vm(4, GANG), vm(5, GANG | later))
    assert "but another START and SHUTDOWN_OK: they" in lease_of(admission, 4).refusal_text


def test_a_gang_that_lost_a_member_takes_no_new_one() -> None:
    first = admitted(vm(4, GANG), vm(5, GANG))
    later = admitted(vm(5, GANG), vm(6, GANG), records=records_of(first))
    assert lease_of(later, 5).id == 4
    assert lease_of(later, 5).vm_ids == (5,)
    assert lease_of(later, 6).refusal_code == "lease-complete"


def test_a_gang_that_lost_a_member_before_it_began_does_not_begin_in_part() -> None:
    records = records_of(admitted(vm(4, GANG), vm(5, GANG)))
    lease = lease_of(admitted(vm(5, GANG), records=records), 5)
    assert (lease.id, lease.state, lease.refusal_code) == (4, LeaseState.INCOMPLETE, "lease-incomplete")
    assert lease.refusal_text == (
        "1 of the 2 VMs of lease 'pair' ended before it began, and it does not begin in part: "
        "end the others and create all of them anew"
    )


@pytest.mark.parametrize("began", [{"run_began_at_s": NOW_S}, {"served_s": 60}, {"preempted_by": 7}])
def test_a_gang_that_has_begun_goes_on_without_a_member_that_ended(began: dict[str, int]) -> None:
    records = {i: replace(r, **began) for i, r in records_of(admitted(vm(4, GANG), vm(5, GANG))).items()}
    assert lease_of(admitted(vm(5, GANG), records=records), 5).state is LeaseState.WAITING


def test_an_ended_gang_leaves_its_name_free() -> None:
    ended = {i: replace(r, ended_at_s=NOW_S) for i, r in records_of(admitted(vm(1, GANG), vm(2, GANG))).items()}
    assert lease_of(admitted(vm(8, GANG), vm(9, GANG), records=ended), 8).vm_ids == (8, 9)


STANDING = records_of(admitted(vm(1, {"TYPE": "BE-SUSPENDABLE"})))


def test_less_protection_is_granted_at_once() -> None:
    admission = admitted(vm(1, {"TYPE": "BE-CANCELLABLE"}), records=STANDING, counted_on=(1,))
    assert lease_of(admission, 1).terms.type is LeaseType.BE_CANCELLABLE
    assert [(record.id, record.terms.type) for record in admission.records] == [(1, LeaseType.BE_CANCELLABLE)]


@pytest.mark.parametrize(
    "changed",
    [
        vm(1),
        vm(1, {"TYPE": "DC-NON-PREEMPTABLE"}),
        vm(1, {"TYPE": "DC-MIGRATABLE"}),
        vm(1, {"TYPE": "BE-SUSPENDABLE", "DURATION": "01:00:00", "MAX_SUSPENSIONS": "0"}),
    ],
    ids=["attribute lost", "non-preemptable", "migratable", "fewer suspensions"],
)
@pytest.mark.parametrize("preempted_by", [None, 30])
def test_more_protection_is_never_granted_during_a_preemption(
    changed: VirtualMachine, preempted_by: int | None
) -> None:
    records = {1: replace(STANDING[1], preempted_by=preempted_by)}
    during = admitted(changed, records=records, counted_on=() if preempted_by else (1,))
    assert lease_of(during, 1).terms == SUSPENDABLE
    assert during.records == ()
    assert [note.code for note in during.notes] == ["change-refused"]
    after = admitted(changed, records=STANDING)
    assert lease_of(after, 1).terms != SUSPENDABLE


@pytest.mark.parametrize(
    "changed",
    [
        vm(1, {"TYPE": "SPOT"}),
        vm(1, "BE-CANCELLABLE"),
        vm(1, GANG),
        vm(1, {"TYPE": "BE-SUSPENDABLE", "START": "+01:00:00"}),
    ],
    ids=["malformed", "text", "another size", "another start"],
)
def test_a_change_that_cannot_be_granted_leaves_the_terms_as_admitted(changed: VirtualMachine) -> None:
    admission = admitted(changed, records=STANDING)
    assert lease_of(admission, 1).terms == SUSPENDABLE
    assert lease_of(admission, 1).state is LeaseState.WAITING
    assert admission.records == ()
    assert [note.code for note in admission.notes] == ["change-refused"]


def test_a_change_of_group_is_judged_by_the_rights_of_the_new_one() -> None:
    moved = replace(vm(1, {"TYPE": "BE-SUSPENDABLE"}), gid=200, gname="guests")
    refused = admitted(moved, records=STANDING)
    assert (lease_of(refused, 1).gid, lease_of(refused, 1).terms) == (100, SUSPENDABLE)
    rights = (*GENEROUS.rights, GroupRights("guests", group="guests", may_claim=(LeaseType.BE_SUSPENDABLE,)))
    granted = admitted(moved, records=STANDING, rules=AdmissionRules(rights=rights))
    assert [(record.gid, record.terms) for record in granted.records] == [(200, SUSPENDABLE)]


def test_the_right_to_preempt_goes_with_the_group_that_gave_it() -> None:
    rights = (GroupRights("users", group="users", may_claim=tuple(LeaseType), may_preempt=True),)
    rules = AdmissionRules(rights=rights)
    records = records_of(admitted(vm(1, {"TYPE": "BE-SUSPENDABLE"}), rules=rules))
    assert records[1].may_preempt
    moved = replace(vm(1, {"TYPE": "BE-SUSPENDABLE"}), gid=200, gname="guests")
    assert not lease_of(admitted(moved, records=records, rules=rules), 1).may_preempt


def test_one_member_cannot_change_the_terms_of_a_gang() -> None:
    records = records_of(admitted(vm(1, GANG), vm(2, GANG)))
    changed = GANG | {"TYPE": "BE-CANCELLABLE"}
    one = admitted(vm(1, changed), vm(2, GANG), records=records)
    assert lease_of(one, 1).terms.type is LeaseType.BE_SUSPENDABLE
    both = admitted(vm(1, changed), vm(2, changed), records=records)
    assert lease_of(both, 1).terms.type is LeaseType.BE_CANCELLABLE


ATTRIBUTES = st.sampled_from([(), ({"TYPE": "BE-SUSPENDABLE"},), (GANG,), (GANG | {"SIZE": "3"},), ("x",)])
STATES = st.sampled_from([VmState.PENDING, VmState.HOLD, VmState.ACTIVE, VmState.DONE, VmState.STOPPED])


@given(st.lists(st.tuples(ATTRIBUTES, STATES, st.sampled_from([5, 6])), max_size=8), st.randoms(use_true_random=False))
def test_every_vm_is_in_exactly_one_lease_whatever_the_order(
    drawn: list[tuple[tuple[AttributeValue, ...], VmState, int]],
    shuffler: Random,
) -> None:
    vms = [replace(vm(i, *leases, state=state), uid=uid) for i, (leases, state, uid) in enumerate(drawn)]
    admission = admitted(*vms)
    members = sorted(vm_id for lease in admission.leases for vm_id in lease.vm_ids)
    assert members == [one.id for one in vms if one.state is not VmState.DONE]
    for lease in admission.leases:
        assert lease.terms.size == len(lease.vm_ids) or lease.state is LeaseState.INCOMPLETE
        assert len({vms[vm_id].uid for vm_id in lease.vm_ids}) == 1
    shuffled = list(vms)
    shuffler.shuffle(shuffled)
    assert admitted(*shuffled) == admission


def test_a_gang_of_which_a_member_cannot_be_read_has_lost_nobody() -> None:
    records = records_of(admitted(vm(4, GANG), vm(5, GANG)))
    seen = admitted(vm(5, GANG), records=records, unreadable_vm_ids=frozenset({4}))
    assert lease_of(seen, 5).state is LeaseState.WAITING
