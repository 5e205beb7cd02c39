"""SR11's starvation limit: the owner's wish within the bounds of his rights, and none for what has no end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.admission.rules import AdmissionRules, GroupRights, LeaseRule, VmMatch, suspension_limit
from one_preempt.core.model.lease import LeaseTerms, LeaseType
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VmState
from tests.core.admission.lease_requests import USERS, admitted, changed_to, only_lease, standing, vm

AN_HOUR = {"TYPE": "BE-SUSPENDABLE", "DURATION": "01:00:00"}
BOUNDED = AdmissionRules(rights=(replace(USERS, least_max_suspensions=2, most_suspensions=5),))


def rights(least: int | None = None, most: int | None = None) -> GroupRights:
    return GroupRights("all", group="users", least_max_suspensions=least, most_suspensions=most)


@pytest.mark.parametrize(
    ("wish", "least", "most", "limit"),
    [
        (None, None, None, None),
        (3, None, None, 3),
        (0, None, None, 0),
        (1, 2, None, 2),
        (None, 2, None, None),
        (9, None, 5, 5),
        (None, None, 5, 5),
        (None, 2, 5, 5),
        (3, 2, 5, 3),
        (3, 3, 3, 3),
    ],
)
def test_the_wish_is_bounded(wish: int | None, least: int | None, most: int | None, limit: int | None) -> None:
    terms = LeaseTerms(type=LeaseType.BE_SUSPENDABLE, duration_s=3600, max_suspensions=wish)
    assert suspension_limit(terms, rights(least, most)) == limit


@given(
    st.sampled_from(LeaseType),
    st.none() | st.integers(1, 100),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 4),
    st.none() | st.integers(5, 9),
)
@settings(derandomize=True)
def test_a_limit_is_within_the_bounds_and_only_what_ends_has_one(
    lease_type: LeaseType, duration_s: int | None, wish: int | None, least: int | None, most: int | None
) -> None:
    terms = LeaseTerms(type=lease_type, duration_s=duration_s, max_suspensions=wish)
    limit = suspension_limit(terms, rights(least, most))
    if lease_type.best_effort and duration_s is None:
        assert limit is None
    elif limit is None:
        assert wish is most is None
    else:
        assert (least or 0) <= limit <= (9 if most is None else most)
        assert limit == wish or limit in (least, most)


@pytest.mark.parametrize(("given", "wish", "limit"), [(None, "0", None), (2, "0", 2), (2, "5", 5)])
def test_without_rights_nobody_is_spared_earlier_than_his_rule_has_it(
    given: int | None, wish: str, limit: int | None
) -> None:
    rule = LeaseRule("all", VmMatch(group="users"), LeaseType.BE_SUSPENDABLE, max_suspensions=given, duration_s=86_400)
    attribute = AN_HOUR | {"MAX_SUSPENSIONS": wish}
    assert only_lease(admitted(vm(1, attribute), rules=AdmissionRules(rules=(rule,)))).terms.max_suspensions == limit
    granted = AdmissionRules(rules=(rule,), rights=(USERS,))
    assert only_lease(admitted(vm(1, attribute), rules=granted)).terms.max_suspensions == int(wish)


@pytest.mark.parametrize(
    ("written", "duration_s"), [({}, 7200), ({"DURATION": "9:00:00"}, 7200), ({"DURATION": "01:00:00"}, 3600)]
)
def test_without_rights_nobody_runs_longer_than_his_rule_has_it(written: dict[str, str], duration_s: int) -> None:
    """By a LEASE attribute that says 1000 hours, or nothing, he would escape what becomes of who outlives his time."""
    rule = LeaseRule("all", VmMatch(group="users"), LeaseType.BE_SUSPENDABLE, duration_s=7200)
    attribute = {"TYPE": "BE-SUSPENDABLE"} | written
    ruled = AdmissionRules(rules=(rule,))
    first = admitted(vm(1, attribute), rules=ruled)
    assert only_lease(first).terms.duration_s == duration_s
    records = {record.id: record for record in first.records}
    again = changed_to(attribute, records, rules=ruled, state=VmState.ACTIVE)
    assert (again.records, again.notes) == ((), ())
    before = replace(records[1], terms=replace(records[1].terms, duration_s=1_000_000))
    after = changed_to(attribute, {1: before}, rules=ruled, state=VmState.ACTIVE)
    assert [record.terms.duration_s for record in after.records] == [duration_s]
    granted = AdmissionRules(rules=(rule,), rights=(USERS,))
    asked = {"9:00:00": 32_400, "01:00:00": 3600}.get(written.get("DURATION", ""))
    assert only_lease(admitted(vm(1, attribute), rules=granted)).terms.duration_s == asked


@pytest.mark.parametrize("written", [{}, {"SHUTDOWN_OK": "NO"}])
def test_without_rights_a_guest_may_be_shut_down_where_the_rule_says_so(written: dict[str, str]) -> None:
    """What cannot be saved, for it has a device, could not leave at all else."""
    rule = LeaseRule("all", VmMatch(group="users"), LeaseType.BE_SUSPENDABLE, shutdown_ok=True)
    attribute = {"TYPE": "BE-SUSPENDABLE"} | written
    assert only_lease(admitted(vm(1, attribute), rules=AdmissionRules(rules=(rule,)))).terms.shutdown_ok
    granted = AdmissionRules(rules=(rule,), rights=(USERS,))
    assert not only_lease(admitted(vm(1, attribute), rules=granted)).terms.shutdown_ok


@pytest.mark.parametrize(("written", "limit"), [({}, 5), ({"MAX_SUSPENSIONS": "0"}, 2), ({"MAX_SUSPENSIONS": "3"}, 3)])
def test_the_recorded_terms_have_the_limit_that_counts_and_stand(written: dict[str, str], limit: int) -> None:
    attribute = AN_HOUR | written
    records = {record.id: record for record in admitted(vm(1, attribute), rules=BOUNDED).records}
    assert records[1].terms.max_suspensions == limit
    again = changed_to(attribute, records, rules=BOUNDED, state=VmState.ACTIVE)
    assert (again.records, again.notes) == ((), ())
    assert only_lease(again).terms.max_suspensions == limit


def test_an_endless_best_effort_lease_has_no_limit_until_it_gets_a_duration() -> None:
    endless = {"TYPE": "BE-SUSPENDABLE", "MAX_SUSPENSIONS": "3"}
    records = standing(endless, Verdict.NONE, BOUNDED)
    assert records[1].terms.max_suspensions is None
    during = admitted(vm(1, AN_HOUR | endless, VmState.ACTIVE), records=records, rules=BOUNDED, counted_on=(1,))
    assert during.records == ()
    after = changed_to(AN_HOUR | endless, records, rules=BOUNDED, state=VmState.ACTIVE)
    assert [record.terms.max_suspensions for record in after.records] == [3]


def test_an_endless_deadline_lease_keeps_its_limit() -> None:
    records = standing({"TYPE": "DC-MIGRATABLE", "MAX_SUSPENSIONS": "3"}, Verdict.NONE)
    assert records[1].terms.max_suspensions == 3


def test_a_duration_that_makes_the_limit_count_is_more_protection() -> None:
    """What a migratable lease without an end says of suspensions spares it from none."""
    endless = {"TYPE": "DC-MIGRATABLE", "MAX_SUSPENSIONS": "1"}
    records = standing(endless, Verdict.NONE)
    one = vm(1, endless | {"DURATION": "01:00:00"}, VmState.ACTIVE)
    during = admitted(one, records=records, counted_on=(1,))
    assert only_lease(during).terms.duration_s is None
    assert [note.code for note in during.notes] == ["change-refused"]
    assert only_lease(admitted(one, records=records)).terms.duration_s == 3600
    longer = vm(1, AN_HOUR | {"DURATION": "02:00:00"}, VmState.ACTIVE)
    admission = admitted(longer, records=standing(AN_HOUR, Verdict.NONE), counted_on=(1,))
    assert only_lease(admission).terms.duration_s == 7200


@pytest.mark.parametrize(
    ("duration", "granted_s"), [("02:00:00", 3600), ("00:30:00", 1800), (None, None)], ids=["longer", "shorter", "none"]
)
def test_what_nobody_may_suspend_any_more_does_not_become_longer(duration: str | None, granted_s: int | None) -> None:
    """Others may have been promised the room after its end. Without one it may be suspended again."""
    once = {"TYPE": "BE-SUSPENDABLE", "MAX_SUSPENSIONS": "1"}
    attribute = once if duration is None else once | {"DURATION": duration}
    for preemptions in (0, 1):
        records = {1: replace(standing(AN_HOUR | once, Verdict.NONE)[1], preemptions=preemptions)}
        admission = changed_to(attribute, records, state=VmState.ACTIVE)
        longer = duration == "02:00:00"
        assert only_lease(admission).terms.duration_s == (7200 if longer and not preemptions else granted_s)
        assert any("MAX_SUSPENSIONS is used up" in note.text for note in admission.notes) is (
            longer and preemptions > 0
        )


@pytest.mark.parametrize(
    ("before", "wish", "during", "after"),
    [("3", "4", 4, 4), ("3", "9", 5, 5), ("3", "2", 3, 2), ("3", "0", 3, 2), ("4", None, 5, 5)],
    ids=["raised", "raised beyond the cap", "lowered", "lowered below the floor", "left out"],
)
def test_raising_the_limit_is_granted_at_once_lowering_it_never_under_preemption(
    before: str, wish: str | None, during: int, after: int
) -> None:
    records = standing(AN_HOUR | {"MAX_SUSPENSIONS": before}, Verdict.NONE, BOUNDED)
    one = vm(1, AN_HOUR | ({} if wish is None else {"MAX_SUSPENSIONS": wish}), VmState.ACTIVE)
    under_preemption = admitted(one, records=records, rules=BOUNDED, counted_on=(1,))
    assert only_lease(under_preemption).terms.max_suspensions == during
    at_peace = admitted(one, records=records, rules=BOUNDED)
    assert only_lease(at_peace).terms.max_suspensions == after


def test_a_wish_beyond_the_bounds_changes_nothing_where_the_limit_stays() -> None:
    records = standing(AN_HOUR | {"MAX_SUSPENSIONS": "5"}, Verdict.NONE, BOUNDED)
    admission = changed_to(AN_HOUR | {"MAX_SUSPENSIONS": "50"}, records, rules=BOUNDED)
    assert (admission.records, admission.notes) == ((), ())


def test_a_change_of_group_brings_the_bounds_of_the_new_one() -> None:
    guests = GroupRights("guests", group="guests", may_claim=tuple(LeaseType), most_suspensions=1)
    rules = AdmissionRules(rights=(*BOUNDED.rights, guests))
    attribute = AN_HOUR | {"MAX_SUSPENSIONS": "4"}
    records = standing(attribute, Verdict.NONE, rules)
    moved = replace(vm(1, attribute, VmState.ACTIVE), gid=200, gname="guests")
    (record,) = admitted(moved, rules=rules, records=records).records
    assert (record.gid, record.terms.max_suspensions) == (200, 1)
    during = admitted(moved, records=records, rules=rules, counted_on=(1,))
    assert during.records == ()
    assert only_lease(during).terms.max_suspensions == 4


def test_rules_give_a_duration_and_a_limit_to_vms_without_a_lease() -> None:
    everybody = VmMatch(user="ann")
    suspendable = LeaseRule("jobs", everybody, type=LeaseType.BE_SUSPENDABLE, max_suspensions=3, duration_s=7200)
    for rule, expected in (
        (suspendable, LeaseTerms(type=LeaseType.BE_SUSPENDABLE, duration_s=7200, max_suspensions=3)),
        (replace(suspendable, duration_s=None), LeaseTerms(type=LeaseType.BE_SUSPENDABLE)),
        (LeaseRule("short", everybody, duration_s=7200), LeaseTerms(duration_s=7200)),
    ):
        rules = AdmissionRules(rules=(rule,))
        (record,) = admitted(vm(1, None), rules=rules).records
        assert (record.terms, record.rule, record.explicit) == (expected, rule.name, False)
        again = admitted(vm(1, None), rules=rules, records={1: record})
        assert (again.records, again.notes) == ((), ())


def test_a_running_vm_whose_attribute_is_refused_gets_the_duration_of_its_rule() -> None:
    rules = AdmissionRules(rules=(LeaseRule("short", VmMatch(user="ann"), duration_s=7200),))
    admission = admitted(vm(1, {"TYPE": "SPOT"}, VmState.ACTIVE), rules=rules)
    assert only_lease(admission).terms == LeaseTerms(duration_s=7200)
