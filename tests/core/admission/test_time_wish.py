"""START, DEADLINE and DURATION at the admission and after the verdict."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from one_preempt.core.admission.rules import AdmissionRules, BeyondRights, LeaseRule, VmMatch
from one_preempt.core.admission.time_wish import impossible_wish
from one_preempt.core.model.lease import LeaseState, LeaseTerms, LeaseType
from one_preempt.core.model.reservation import Verdict
from one_preempt.core.model.virtual_machine import VmState
from tests.core.admission.lease_requests import (
    GENEROUS,
    HOUR_S,
    NOW_S,
    USERS,
    admitted,
    changed_to,
    only_lease,
    standing,
    vm,
)

EXACT = {"TYPE": "BE-SUSPENDABLE", "START": "2026-12-01T12:00:00Z", "DURATION": "02:00:00"}
DEADLINE = {"TYPE": "DC-MIGRATABLE", "DURATION": "02:00:00", "DEADLINE": "2026-12-01T13:00:00Z"}
WINDOW = DEADLINE | {"START": "2026-12-01T10:00:00Z"}
NOT_GRANTED = [Verdict.REFUSED, Verdict.CONVERTED]
WAITING_STATES = [VmState.PENDING, VmState.HOLD]
STARTED_STATES = [VmState.ACTIVE, VmState.STOPPED, VmState.POWEROFF]


# -- at the admission ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "admitted_at_all"),
    [
        ("2026-12-01T09:00:00Z", True),
        ("2026-12-01T08:55:00Z", True),
        ("2026-12-01T08:54:59Z", False),
        ("2026-12-01T09:54:59+01:00", False),
        ("2025-12-01T09:00:00Z", False),
        ("now", True),
        ("+00:00:01", True),
    ],
)
def test_a_start_that_has_passed_is_refused_beyond_what_clocks_differ(written: str, admitted_at_all: bool) -> None:
    admission = admitted(vm(1, EXACT | {"START": written}))
    assert len(admission.records) == admitted_at_all
    assert only_lease(admission).refusal_code == ("" if admitted_at_all else "start-passed")


def test_who_comes_too_late_reads_by_whose_clock() -> None:
    lease = only_lease(admitted(vm(1, EXACT | {"START": "2026-12-01T08:00:00Z"})))
    assert (lease.state, lease.refusal_text) == (
        LeaseState.REFUSED,
        "START 2026-12-01T08:00:00Z has passed by the scheduler's clock: write a later one",
    )


@pytest.mark.parametrize("keys", [EXACT | {"START": "2026-12-01T08:00:00Z"}, DEADLINE | {"DURATION": "05:00:00"}])
def test_what_cannot_be_is_said_in_the_same_words_later_so_that_nothing_is_written_anew(keys: dict[str, str]) -> None:
    texts = {only_lease(admitted(vm(1, keys), now_s=NOW_S + later_s)).refusal_text for later_s in (0, 2, 3600)}
    assert len(texts) == 1
    assert texts != {""}


def test_a_deadline_that_cannot_be_met_is_refused_with_what_is_missing() -> None:
    lease = only_lease(admitted(vm(1, DEADLINE | {"DURATION": "05:00:00"})))
    assert (lease.state, lease.refusal_code) == (LeaseState.REFUSED, "deadline-impossible")
    assert lease.refusal_text == (
        "DEADLINE 2026-12-01T13:00:00Z cannot be met: with DURATION 05:00:00 it would have to start by "
        "2026-12-01T08:00:00Z: move DEADLINE or shorten DURATION"
    )


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"DURATION": "04:00:00"}, ""),
        ({"DURATION": "04:00:01"}, "deadline-impossible"),
        ({"START": "+02:00:00"}, ""),
        ({"START": "+02:00:01"}, "deadline-impossible"),
        # A window that is open already: as soon as there is room.
        ({"START": "2026-12-01T01:00:00Z"}, ""),
        ({"START": "2026-12-01T01:00:00Z", "DURATION": "04:00:01"}, "deadline-impossible"),
    ],
)
def test_a_deadline_is_held_against_the_earliest_possible_end(keys: dict[str, str], code: str) -> None:
    assert only_lease(admitted(vm(1, DEADLINE | keys))).refusal_code == code


@given(
    duration_s=st.integers(1, 10 * HOUR_S),
    deadline_at_s=st.integers(NOW_S - HOUR_S, NOW_S + 12 * HOUR_S),
    start_at_s=st.none() | st.integers(NOW_S - 2 * HOUR_S, NOW_S + 12 * HOUR_S),
)
@settings(derandomize=True)
def test_a_deadline_is_refused_if_and_only_if_no_start_from_now_on_meets_it(
    duration_s: int, deadline_at_s: int, start_at_s: int | None
) -> None:
    terms = LeaseTerms(
        type=LeaseType.DC_MIGRATABLE, duration_s=duration_s, deadline_at_s=deadline_at_s, start_at_s=start_at_s
    )
    latest_start_at_s = deadline_at_s - duration_s
    possible = latest_start_at_s >= NOW_S and (start_at_s is None or latest_start_at_s >= start_at_s)
    assert (impossible_wish(terms, NOW_S) is None) == possible


@pytest.mark.parametrize("state", STARTED_STATES)
def test_what_has_started_already_had_its_start_also_when_the_ledger_was_lost(state: VmState) -> None:
    long_ago = vm(1, EXACT | {"START": "2026-11-30T00:00:00Z"}, state)
    assert [record.terms.type for record in admitted(long_ago).records] == [LeaseType.BE_SUSPENDABLE]


def test_an_impossible_wish_never_falls_back_to_a_plain_vm() -> None:
    rules = dataclasses.replace(GENEROUS, beyond_rights=BeyondRights.FALL_BACK)
    late = admitted(vm(1, EXACT | {"START": "2026-12-01T08:00:00Z"}), rules=rules)
    assert only_lease(late).state is LeaseState.REFUSED


def test_now_needs_no_right_to_reserve() -> None:
    plain = {"TYPE": "DC-NON-PREEMPTABLE", "START": "now"}
    (record,) = admitted(vm(1, plain), rules=AdmissionRules()).records
    assert (record.terms.at_once, record.terms.start_at_s) == (True, None)


def test_where_durations_are_capped_a_reservation_needs_one() -> None:
    rules = AdmissionRules(rights=(replace(USERS, max_duration_s=7200),))
    endless = {"TYPE": "BE-SUSPENDABLE"}
    assert only_lease(admitted(vm(1, endless), rules=rules)).refusal_code == ""
    ahead = endless | {"START": "+01:00:00"}
    refused = only_lease(admitted(vm(1, ahead), rules=rules))
    assert refused.refusal_code == "duration-not-granted"
    assert refused.refusal_text.startswith("START and DEADLINE need a DURATION: ")
    assert refused.refusal_text.endswith(" may ask for at most 02:00:00")
    too_long = only_lease(admitted(vm(1, EXACT | {"DURATION": "02:00:01"}), rules=rules))
    assert too_long.refusal_text.startswith("DURATION: ")
    assert only_lease(admitted(vm(1, endless | {"START": "now"}), rules=rules)).refusal_code == ""
    assert only_lease(admitted(vm(1, EXACT), rules=rules)).refusal_code == ""


# -- the verdict in the lease ----------------------------------------------------------------------------


def test_a_lease_carries_what_its_record_says_about_time() -> None:
    records = standing(EXACT, Verdict.ACCEPTED)
    records = {1: replace(records[1], served_s=70, run_began_at_s=NOW_S - 30)}
    lease = only_lease(changed_to(EXACT, records, state=VmState.ACTIVE))
    assert (lease.verdict, lease.verdict_text) == (Verdict.ACCEPTED, "is accepted")
    assert (lease.served_s, lease.run_began_at_s) == (70, NOW_S - 30)
    assert lease.expected_end_at_s == NOW_S - 30 + 2 * HOUR_S - 70


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("state", WAITING_STATES + STARTED_STATES)
def test_only_a_refused_reservation_of_which_nothing_has_started_is_a_refused_lease(
    verdict: Verdict, state: VmState
) -> None:
    lease = only_lease(changed_to(EXACT, standing(EXACT, verdict), state=state))
    refused = verdict is Verdict.REFUSED and state in WAITING_STATES
    assert lease.state is (LeaseState.REFUSED if refused else LeaseState.WAITING)
    expected = ("reservation-refused", "is refused") if refused else ("", "")
    assert (lease.refusal_code, lease.refusal_text) == expected


# -- asked anew ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", NOT_GRANTED)
@pytest.mark.parametrize("state", WAITING_STATES)
@pytest.mark.parametrize(
    "wish",
    [
        EXACT | {"START": "2026-12-01T15:00:00Z"},
        EXACT | {"START": "now"},
        EXACT | {"DURATION": "01:00:00"},
        EXACT | {"DURATION": "09:00:00"},
        WINDOW,
        DEADLINE,
        {"TYPE": "BE-SUSPENDABLE"},
        None,
    ],
    ids=["later", "now", "shorter", "longer", "window", "deadline", "no time", "no lease"],
)
def test_what_was_not_granted_may_be_asked_otherwise_while_it_waits(
    verdict: Verdict, state: VmState, wish: dict[str, str] | None
) -> None:
    admission = changed_to(wish, standing(EXACT, verdict), state=state)
    (record,) = admission.records
    assert (record.verdict, record.verdict_text) == (Verdict.NONE, "")
    asked = admitted(vm(1, wish)).leases[0].terms
    assert record.terms == only_lease(admission).terms == asked
    assert only_lease(admission).state is LeaseState.WAITING
    again = changed_to(wish, {1: record}, state=state)
    assert (again.records, again.notes) == ((), ())


def test_a_relative_start_asked_anew_is_counted_anew() -> None:
    relative = EXACT | {"START": "+03:00:00"}
    records = standing(relative, Verdict.REFUSED)
    assert records[1].terms.start_at_s == NOW_S + 3 * HOUR_S
    (record,) = changed_to(relative | {"DURATION": "01:00:00"}, records, later_s=4 * HOUR_S).records
    assert record.terms.start_at_s == NOW_S + 7 * HOUR_S


@pytest.mark.parametrize("verdict", NOT_GRANTED)
def test_what_is_asked_anew_is_judged_as_a_new_request(verdict: Verdict) -> None:
    records = standing(EXACT, verdict)
    for wish, told in (
        (EXACT | {"START": "2026-12-01T08:00:00Z"}, "has passed"),
        (DEADLINE | {"DURATION": "05:00:00"}, "cannot be met"),
        (EXACT | {"START": "tomorrow"}, "is not usable"),
    ):
        admission = changed_to(wish, records)
        assert admission.records == ()
        assert only_lease(admission).verdict is verdict
        assert [note.code for note in admission.notes] == ["change-refused"]
        assert told in admission.notes[0].text
    capped = AdmissionRules(rights=(replace(USERS, max_ahead_s=HOUR_S),))
    later = EXACT | {"START": "2026-12-01T10:00:01Z"}
    assert changed_to(later, records, rules=capped).records == ()
    in_time = EXACT | {"START": "2026-12-01T10:00:00Z"}
    assert [record.verdict for record in changed_to(in_time, records, rules=capped).records] == [Verdict.NONE]


@pytest.mark.parametrize("verdict", NOT_GRANTED)
def test_another_change_leaves_the_verdict(verdict: Verdict) -> None:
    (record,) = changed_to(EXACT | {"SHUTDOWN_OK": "YES"}, standing(EXACT, verdict)).records
    assert (record.verdict, record.verdict_text, record.terms.shutdown_ok) == (verdict, f"is {verdict}", True)


@pytest.mark.parametrize("verdict", NOT_GRANTED)
@pytest.mark.parametrize("wish", [EXACT, DEADLINE | {"TYPE": "DC-NON-PREEMPTABLE"}, EXACT | {"START": "now"}])
def test_what_was_not_granted_is_judged_again_with_another_type(verdict: Verdict, wish: dict[str, str]) -> None:
    (record,) = changed_to(wish | {"TYPE": "DC-MIGRATABLE"}, standing(wish, verdict)).records
    assert (record.verdict, record.verdict_text, record.terms.type) == (Verdict.NONE, "", LeaseType.DC_MIGRATABLE)


@pytest.mark.parametrize("verdict", NOT_GRANTED)
def test_another_type_brings_no_start_back_that_has_passed(verdict: Verdict) -> None:
    (record,) = changed_to(EXACT | {"TYPE": "DC-MIGRATABLE"}, standing(EXACT, verdict), later_s=24 * HOUR_S).records
    assert (record.verdict, record.terms.type) == (verdict, LeaseType.DC_MIGRATABLE)


@pytest.mark.parametrize("state", STARTED_STATES)
def test_once_it_has_started_nothing_is_asked_anew(state: VmState) -> None:
    records = standing(EXACT, Verdict.CONVERTED)
    for wish in (EXACT | {"START": "2026-12-01T15:00:00Z"}, {"TYPE": "BE-SUSPENDABLE"}, WINDOW):
        assert changed_to(wish, records, state=state).records == ()
    (record,) = changed_to(EXACT | {"DURATION": "09:00:00"}, records, state=state).records
    assert (record.verdict, record.terms.duration_s) == (Verdict.CONVERTED, 9 * HOUR_S)


def test_without_a_verdict_the_start_stays_as_it_was_asked() -> None:
    admission = changed_to(EXACT | {"START": "2026-12-01T15:00:00Z"}, standing(EXACT, Verdict.NONE))
    assert admission.records == ()
    assert "START cannot change" in admission.notes[0].text


def test_all_members_of_a_gang_ask_anew_together() -> None:
    gang = EXACT | {"NAME": "pair", "SIZE": "2"}
    (record,) = admitted(vm(1, gang), vm(2, gang)).records
    records = {1: replace(record, verdict=Verdict.REFUSED)}
    later = gang | {"START": "2026-12-01T15:00:00Z"}
    assert admitted(vm(1, later), vm(2, gang), records=records).records == ()
    assert [r.verdict for r in admitted(vm(1, later), vm(2, later), records=records).records] == [Verdict.NONE]
    half_started = admitted(vm(1, later, VmState.ACTIVE), vm(2, later), records=records)
    assert half_started.records == ()


# -- accepted --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [VmState.HOLD, VmState.ACTIVE])
@pytest.mark.parametrize(
    ("before", "wish"),
    [
        (EXACT, EXACT | {"DURATION": "01:59:59"}),
        (DEADLINE, DEADLINE | {"DURATION": "01:00:00"}),
        (DEADLINE, DEADLINE | {"DEADLINE": "2026-12-02T13:00:00Z"}),
        (WINDOW, WINDOW | {"DEADLINE": "2026-12-01T13:00:01Z", "DURATION": "01:00:00"}),
        ({"TYPE": "BE-SUSPENDABLE", "START": "+01:00:00"},) * 2,
    ],
    ids=["shorter", "shorter with deadline", "later deadline", "both", "the same"],
)
def test_an_accepted_reservation_may_shrink(before: dict[str, str], wish: dict[str, str], state: VmState) -> None:
    records = standing(before, Verdict.ACCEPTED)
    admission = changed_to(wish, records, state=state)
    lease = only_lease(admission)
    assert (lease.verdict, lease.verdict_text) == (Verdict.ACCEPTED, "is accepted")
    assert lease.terms == admitted(vm(1, wish)).records[0].terms
    assert [note.code for note in admission.notes] == (["change-accepted"] if wish != before else [])


@pytest.mark.parametrize("state", [VmState.HOLD, VmState.ACTIVE])
@pytest.mark.parametrize(
    ("before", "wish", "told"),
    [
        (EXACT, EXACT | {"DURATION": "02:00:01"}, "DURATION of an accepted reservation cannot become longer"),
        (EXACT, {"TYPE": "BE-SUSPENDABLE", "START": EXACT["START"]}, "cannot become longer"),
        (EXACT, EXACT | {"START": "2026-12-01T12:00:01Z"}, "START of an accepted reservation cannot change"),
        (EXACT, EXACT | {"START": "+03:00:00"}, "START of an accepted reservation cannot change"),
        (EXACT, EXACT | {"START": "now"}, "START of an accepted reservation cannot change"),
        (EXACT, None, "START of an accepted reservation cannot change"),
        (EXACT, EXACT | {"TYPE": "DC-MIGRATABLE", "DEADLINE": "2026-12-01T20:00:00Z"}, "can neither be added"),
        (WINDOW, {key: WINDOW[key] for key in ("TYPE", "START", "DURATION")}, "can neither be added nor left out"),
        (DEADLINE, DEADLINE | {"DEADLINE": "2026-12-01T12:59:59Z"}, "earlier than 2026-12-01T13:00:00Z"),
        (DEADLINE, DEADLINE | {"DURATION": "03:00:00"}, "cannot become longer"),
    ],
)
def test_an_accepted_reservation_takes_no_other_room(
    before: dict[str, str], wish: dict[str, str] | None, told: str, state: VmState
) -> None:
    records = standing(before, Verdict.ACCEPTED)
    admission = changed_to(wish, records, state=state)
    assert admission.records == ()
    assert only_lease(admission).terms == records[1].terms
    (note,) = admission.notes
    assert note.code == "change-refused"
    assert told in note.text


def test_who_gives_up_a_deadline_waits_as_any_other() -> None:
    without = {key: DEADLINE[key] for key in ("TYPE", "DURATION")}
    (record,) = changed_to(without, standing(DEADLINE, Verdict.ACCEPTED)).records
    assert (record.verdict, record.verdict_text, record.terms.asks_for_time) == (Verdict.NONE, "", False)


def test_an_accepted_reservation_is_not_judged_by_its_start_once_that_has_passed() -> None:
    records = standing(EXACT, Verdict.ACCEPTED)
    later = changed_to(EXACT, records, later_s=24 * HOUR_S)
    assert (later.records, later.notes) == ((), ())
    shorter = changed_to(EXACT | {"DURATION": "01:00:00"}, records, later_s=24 * HOUR_S)
    assert [record.terms.duration_s for record in shorter.records] == [HOUR_S]


# -- without a reservation -------------------------------------------------------------------------------


@pytest.mark.parametrize("lease_type", list(LeaseType))
def test_once_started_only_what_may_be_preempted_may_become_longer(lease_type: LeaseType) -> None:
    before = {"TYPE": str(lease_type), "DURATION": "01:00:00"}
    records = standing(before, Verdict.NONE)
    for wish in ({"TYPE": str(lease_type)}, before | {"DURATION": "01:00:01"}):
        admission = changed_to(wish, records, state=VmState.ACTIVE)
        assert len(admission.records) == lease_type.preemptable
        assert len(changed_to(wish, records).records) == 1
    shorter = before | {"DURATION": "00:30:00"}
    assert len(changed_to(shorter, records, state=VmState.ACTIVE).records) == 1


def test_a_deadline_can_be_asked_for_until_the_vms_start() -> None:
    records = standing({"TYPE": "DC-MIGRATABLE", "DURATION": "02:00:00"}, Verdict.NONE)
    (record,) = changed_to(DEADLINE, records).records
    assert (record.verdict, record.terms.deadline_at_s) == (Verdict.NONE, NOW_S + 4 * HOUR_S)
    assert changed_to(DEADLINE | {"DEADLINE": "2026-12-01T10:59:00Z"}, records).records == ()
    started = changed_to(DEADLINE, records, state=VmState.ACTIVE)
    assert started.records == ()
    assert "DEADLINE cannot change once its VMs have started" in started.notes[0].text


@pytest.mark.parametrize(
    ("name", "longer_s"),
    [("jobs", 3 * HOUR_S), ("others", 3 * HOUR_S), ("jobs", None)],
    ids=["longer", "another", "none"],
)
def test_where_the_rule_itself_has_changed_its_duration_counts_whatever_was_promised(
    name: str, longer_s: int | None
) -> None:
    """An administrator may take back what he has promised."""
    rule = LeaseRule("jobs", VmMatch(user="ann"), type=LeaseType.BE_SUSPENDABLE, duration_s=2 * HOUR_S)
    runs = vm(1, None, VmState.ACTIVE)
    (record,) = admitted(runs, rules=AdmissionRules(rules=(rule,))).records
    rules = AdmissionRules(rules=(replace(rule, name=name, duration_s=longer_s),))
    (changed,) = admitted(runs, records={1: record}, rules=rules, promised_at_s=NOW_S + 60).records
    assert (changed.terms.duration_s, changed.rule) == (longer_s, name)
