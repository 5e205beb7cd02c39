"""Where a power sequence stands, read off host, VMs and power: each phase is left for one reason at a time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.energy.power_rules import HostPattern, PowerMode, PowerRules, QuietHours
from one_preempt.core.host_power.hosts_to_come import first_switching_s, last_switching_s
from one_preempt.core.host_power.observe_power import ObservedPower, observe_power
from one_preempt.core.host_power.power_watch import PowerWatch
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.ledger import Ledger
from one_preempt.core.model.outcome import Outcome
from one_preempt.core.model.pool_snapshot import PoolSnapshot, RaftState
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerStatus
from one_preempt.core.model.power_sequence import PowerPhase, PowerReport, PowerSequence, PowerStepKind
from tests.core.recounted_cluster import NOW_S, host, running

P, S = PowerPhase, HostState
RULES = PowerRules(mode=PowerMode.ENFORCE, handed_over=(HostPattern(),), boot_timeout_s=900, shutdown_timeout_s=600)


def seen(
    phase: PowerPhase,
    state: HostState,
    *,
    power: PowerStatus | None = None,
    vm: bool = False,
    unreadable: bool = False,
    rules: PowerRules = RULES,
    **more: object,
) -> PowerSequence:
    """The sequence, begun a minute ago, once its host is seen like this."""
    before = PowerSequence(0, "host-0", phase, NOW_S - 60, "idle", "nobody is on it", began_at_s=NOW_S - 60)
    before = replace(before, **more)
    known: Host = replace(host(0), state=state)
    vms = {5: running(5, 0)} if vm else {}
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {0: known}, vms)
    if unreadable:
        snapshot = replace(snapshot, unreadable_vm_ids=frozenset({9}), untraced_vm_ids=frozenset({9}))
    answer = PowerOutcome(PowerAnswer.ACCEPTED, "")
    reports = {} if power is None else {0: PowerReport(0, PowerStepKind.READ_POWER, answer, NOW_S - 1, power)}
    return observe_power(snapshot, Ledger(power_sequences={0: before}), reports, rules, NOW_S).known.sequences[0]


TRIED = {"attempts": 1, "outcome": Outcome.ACCEPTED, "outcome_at_s": NOW_S - 50}
LOST = {"attempts": 1}
REFUSED = {"attempts": 1, "outcome": Outcome.REFUSED, "outcome_at_s": NOW_S - 50}
STUCK = {"reason_code": "stuck", "failures": 1, "not_before_s": NOW_S}
DROPPED = {"attempts": 1, "outcome": Outcome.DROPPED, "outcome_at_s": NOW_S - 50}


@pytest.mark.parametrize(
    ("phase", "state", "more", "after"),
    [
        # One step follows the other.
        (P.DISABLING, S.MONITORED, {}, P.DISABLING),
        (P.DISABLING, S.DISABLED, TRIED, P.EMPTYING),
        (P.DISABLING, S.DISABLED, LOST, P.EMPTYING),
        (P.EMPTYING, S.DISABLED, {}, P.GOING_OFFLINE),
        (P.GOING_OFFLINE, S.DISABLED, {}, P.GOING_OFFLINE),
        (P.GOING_OFFLINE, S.OFFLINE, TRIED, P.CHECKING),
        (P.GOING_OFFLINE, S.OFFLINE, LOST, P.CHECKING),
        (P.CHECKING, S.OFFLINE, {}, P.SWITCHING_OFF),
        (P.SWITCHING_OFF, S.OFFLINE, {}, P.SWITCHING_OFF),
        (P.SWITCHING_OFF, S.OFFLINE, TRIED | {"power": PowerStatus.ON}, P.SWITCHING_OFF),
        (P.SWITCHING_OFF, S.OFFLINE, TRIED | {"power": PowerStatus.OFF}, P.ASLEEP),
        (P.ASLEEP, S.OFFLINE, {"power": PowerStatus.OFF}, P.ASLEEP),
        (P.SWITCHING_ON, S.OFFLINE, TRIED | {"power": PowerStatus.OFF}, P.SWITCHING_ON),
        (P.SWITCHING_ON, S.OFFLINE, TRIED | {"power": PowerStatus.ON}, P.ENABLING),
        (P.ENABLING, S.OFFLINE, {}, P.ENABLING),
        (P.ENABLING, S.OFFLINE, {"power": PowerStatus.ON}, P.ENABLING),
        (P.ENABLING, S.OFFLINE, {"power": PowerStatus.OFF}, P.SWITCHING_ON),
        (P.ENABLING, S.OFFLINE, {"power": PowerStatus.OFF, "began_at_s": 0}, P.ENABLING),
        (P.ENABLING, S.INIT, TRIED, P.ENABLING),
        (P.ENABLING, S.ERROR, TRIED, P.ENABLING),
        (P.ENABLING, S.MONITORED, TRIED, P.AWAKE),
        # Somebody is on it, or perhaps is.
        (P.EMPTYING, S.DISABLED, {"vm": True}, P.ENABLING),
        (P.EMPTYING, S.DISABLED, {"vm": True, "emptied_vm_ids": (5,)}, P.EMPTYING),
        (P.EMPTYING, S.DISABLED, {"unreadable": True}, P.EMPTYING),
        (P.GOING_OFFLINE, S.DISABLED, {"vm": True}, P.ENABLING),
        (P.GOING_OFFLINE, S.DISABLED, {"unreadable": True}, P.GOING_OFFLINE),
        (P.CHECKING, S.OFFLINE, {"vm": True}, P.ENABLING),
        (P.CHECKING, S.OFFLINE, {"unreadable": True}, P.CHECKING),
        (P.SWITCHING_OFF, S.OFFLINE, {"vm": True}, P.ENABLING),
        (P.SWITCHING_OFF, S.OFFLINE, TRIED | {"vm": True}, P.SWITCHING_ON),
        (P.ASLEEP, S.OFFLINE, {"vm": True}, P.SWITCHING_ON),
        # An administrator's own is his.
        (P.DISABLING, S.DISABLED, {}, P.AWAKE),
        (P.DISABLING, S.DISABLED, DROPPED, P.AWAKE),
        (P.DISABLING, S.OFFLINE, {}, P.AWAKE),
        (P.EMPTYING, S.MONITORED, {}, P.AWAKE),
        (P.EMPTYING, S.OFFLINE, {}, P.AWAKE),
        (P.GOING_OFFLINE, S.OFFLINE, {}, P.AWAKE),
        (P.GOING_OFFLINE, S.OFFLINE, DROPPED, P.AWAKE),
        (P.GOING_OFFLINE, S.MONITORED, {}, P.AWAKE),
        (P.CHECKING, S.MONITORED, {}, P.AWAKE),
        (P.SWITCHING_OFF, S.INIT, {}, P.AWAKE),
        (P.SWITCHING_OFF, S.INIT, TRIED, P.SWITCHING_ON),
        (P.ASLEEP, S.INIT, {}, P.SWITCHING_ON),
        (P.ASLEEP, S.DISABLED, {}, P.AWAKE),
        (P.ASLEEP, S.OFFLINE, {"power": PowerStatus.ON}, P.ENABLING),
        (P.SWITCHING_ON, S.MONITORED, {}, P.AWAKE),
        (P.ENABLING, S.OFFLINE, TRIED, P.AWAKE),
        (P.ENABLING, S.DISABLED, {}, P.AWAKE),
        (P.ENABLING, S.DISABLED, {"began_at_s": 0}, P.ENABLING),
        (P.FAILED, S.MONITORED, {}, P.AWAKE),
        (P.FAILED, S.DISABLED, {}, P.AWAKE),
        (P.FAILED, S.ERROR, {"not_before_s": NOW_S + 1}, P.FAILED),
        (P.FAILED, S.OFFLINE, {"not_before_s": NOW_S + 1}, P.FAILED),
        (P.FAILED, S.ERROR, {"not_before_s": NOW_S}, P.SWITCHING_ON),
        (P.FAILED, S.OFFLINE, {"not_before_s": NOW_S}, P.ASLEEP),
        (P.DISABLING, S.MONITORED, TRIED, P.AWAKE),
        (P.DISABLING, S.MONITORED, TRIED | {"outcome_at_s": NOW_S}, P.DISABLING),
        (P.DISABLING, S.MONITORED, LOST, P.DISABLING),
        (P.DISABLING, S.ERROR, LOST, P.DISABLING),
        (P.DISABLING, S.ERROR, LOST | {"since_s": NOW_S - 901}, P.AWAKE),
        # What was refused, and what takes too long.
        (P.DISABLING, S.MONITORED, REFUSED, P.AWAKE),
        (P.GOING_OFFLINE, S.DISABLED, REFUSED, P.ENABLING),
        (P.SWITCHING_OFF, S.OFFLINE, REFUSED, P.ENABLING),
        (P.SWITCHING_OFF, S.OFFLINE, REFUSED | {"attempts": 2}, P.SWITCHING_OFF),
        (P.SWITCHING_ON, S.OFFLINE, REFUSED, P.FAILED),
        (P.SWITCHING_ON, S.OFFLINE, TRIED | {"began_at_s": NOW_S - 901}, P.FAILED),
        (P.ENABLING, S.ERROR, TRIED | {"began_at_s": NOW_S - 901, "since_s": NOW_S - 901}, P.FAILED),
        (P.EMPTYING, S.DISABLED, {"vm": True, "emptied_vm_ids": (5,), "since_s": NOW_S - 3601}, P.ENABLING),
        # What hangs in its boot loses its power, once and only where nobody can be on it.
        (P.FAILED, S.ERROR, STUCK, P.CUTTING_POWER),
        (P.FAILED, S.OFFLINE, STUCK, P.CUTTING_POWER),
        (P.FAILED, S.MONITORED, STUCK, P.AWAKE),
        (P.FAILED, S.DISABLED, STUCK, P.AWAKE),
        (P.FAILED, S.ERROR, STUCK | {"not_before_s": NOW_S + 1}, P.FAILED),
        (P.FAILED, S.ERROR, STUCK | {"failures": 2}, P.SWITCHING_ON),
        (P.FAILED, S.ERROR, STUCK | {"vm": True}, P.SWITCHING_ON),
        (P.FAILED, S.ERROR, STUCK | {"unreadable": True}, P.SWITCHING_ON),
        (P.CUTTING_POWER, S.ERROR, {}, P.CUTTING_POWER),
        (P.CUTTING_POWER, S.ERROR, {"power": PowerStatus.OFF}, P.CUTTING_POWER),
        (P.CUTTING_POWER, S.ERROR, TRIED | {"power": PowerStatus.ON}, P.CUTTING_POWER),
        (P.CUTTING_POWER, S.ERROR, TRIED | {"power": PowerStatus.OFF}, P.SWITCHING_ON),
        (P.CUTTING_POWER, S.MONITORED, {}, P.AWAKE),
        (P.CUTTING_POWER, S.DISABLED, TRIED, P.AWAKE),
        (P.CUTTING_POWER, S.ERROR, {"vm": True}, P.SWITCHING_ON),
        (P.CUTTING_POWER, S.ERROR, REFUSED, P.FAILED),
        (P.CUTTING_POWER, S.ERROR, TRIED | {"since_s": NOW_S - 601}, P.FAILED),
        # What was not carried out as the host changed hands meanwhile, or perhaps had.
        (P.SWITCHING_OFF, S.OFFLINE, DROPPED, P.SWITCHING_OFF),
        (P.SWITCHING_OFF, S.OFFLINE, DROPPED | {"vm": True}, P.ENABLING),
        (P.SWITCHING_OFF, S.OFFLINE, DROPPED | {"vm": True, "attempts": 2}, P.SWITCHING_ON),
        (P.SWITCHING_OFF, S.MONITORED, DROPPED, P.AWAKE),
        (P.CUTTING_POWER, S.ERROR, DROPPED, P.CUTTING_POWER),
        (P.CUTTING_POWER, S.MONITORED, DROPPED, P.AWAKE),
        # Once it was enabled, OFFLINE is its administrator's.
        (P.ENABLING, S.OFFLINE, {"enabled": True, "power": PowerStatus.OFF}, P.AWAKE),
        (P.SWITCHING_ON, S.OFFLINE, TRIED | {"enabled": True, "power": PowerStatus.ON}, P.AWAKE),
        (P.FAILED, S.OFFLINE, {"not_before_s": NOW_S, "enabled": True}, P.AWAKE),
        (P.FAILED, S.OFFLINE, STUCK | {"enabled": True}, P.AWAKE),
        (P.FAILED, S.ERROR, STUCK | {"enabled": True}, P.CUTTING_POWER),
        (P.CUTTING_POWER, S.OFFLINE, {"enabled": True}, P.AWAKE),
        (P.CUTTING_POWER, S.OFFLINE, {}, P.CUTTING_POWER),
    ],
)  # fmt: skip
def test_a_phase_is_left_for_what_is_seen(
    phase: PowerPhase, state: HostState, more: dict[str, object], after: PowerPhase
) -> None:
    found = seen(phase, state, **more)  # type: ignore[arg-type]
    assert found.phase is after
    if after is not phase:
        assert (found.since_s, found.attempts, found.outcome) == (NOW_S, 0, None)


def test_a_host_that_somebody_else_switched_on_is_told_of_with_the_word_power_once() -> None:
    before = PowerSequence(0, "host-0", P.ASLEEP, NOW_S - 60, "idle", "", began_at_s=NOW_S - 60)
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {0: replace(host(0), state=S.OFFLINE)}, {})
    accepted = PowerOutcome(PowerAnswer.ACCEPTED, "")
    report = PowerReport(0, PowerStepKind.READ_POWER, accepted, NOW_S - 1, PowerStatus.ON)
    observed = observe_power(snapshot, Ledger(power_sequences={0: before}), {0: report}, RULES, NOW_S)
    assert [one.code for one in observed.discrepancies] == ["power-came"]


def test_a_reading_from_before_the_order_says_nothing_of_its_effect() -> None:
    later = {"since_s": NOW_S, "attempts": 1, "outcome": Outcome.ACCEPTED, "outcome_at_s": NOW_S}
    assert seen(P.SWITCHING_OFF, S.OFFLINE, power=PowerStatus.OFF, **later).phase is P.SWITCHING_OFF  # type: ignore[arg-type]


def test_each_failure_doubles_the_pause_and_a_boot_forgets_them() -> None:
    first = seen(P.SWITCHING_ON, S.OFFLINE, **REFUSED)  # type: ignore[arg-type]
    assert (first.failures, first.not_before_s) == (1, NOW_S + RULES.first_pause_s)
    third = seen(P.SWITCHING_ON, S.OFFLINE, **REFUSED, failures=2)  # type: ignore[arg-type]
    assert third.not_before_s == NOW_S + 4 * RULES.first_pause_s
    up = seen(P.ENABLING, S.MONITORED, **TRIED, failures=2, not_before_s=NOW_S + 9)  # type: ignore[arg-type]
    assert (up.failures, up.not_before_s) == (0, 0)


def test_who_wants_to_be_left_alone_for_longer_than_a_failure_costs_is() -> None:
    failed = seen(P.SWITCHING_ON, S.OFFLINE, **REFUSED, not_before_s=NOW_S + 5000)  # type: ignore[arg-type]
    assert (failed.phase, failed.not_before_s) == (P.FAILED, NOW_S + 5000)


def test_what_loses_its_power_on_the_way_up_has_no_more_time_for_it() -> None:
    """Else it would be switched on for ever, and never have failed."""
    again = seen(P.ENABLING, S.OFFLINE, power=PowerStatus.OFF)
    assert (again.phase, again.since_s, again.began_at_s) == (P.SWITCHING_ON, NOW_S, NOW_S - 60)


def test_power_is_cut_only_of_hosts_that_may_be_switched_and_while_that_is_done() -> None:
    for rules, after in (
        (RULES, P.CUTTING_POWER),
        (replace(RULES, mode=PowerMode.ADVISE), P.SWITCHING_ON),
        (replace(RULES, handed_over=(HostPattern("host-1"),)), P.SWITCHING_ON),
    ):
        assert seen(P.FAILED, S.ERROR, rules=rules, **STUCK).phase is after  # type: ignore[arg-type]


def test_a_cut_counts_no_failure_of_its_own_and_forgets_none() -> None:
    cut = seen(P.CUTTING_POWER, S.ERROR, power=PowerStatus.OFF, **TRIED, failures=1)  # type: ignore[arg-type]
    assert (cut.failures, cut.began_at_s) == (1, NOW_S)
    refused = seen(P.CUTTING_POWER, S.ERROR, **REFUSED, failures=1)  # type: ignore[arg-type]
    assert refused.failures == 2


def test_only_a_boot_of_ours_that_ends_nowhere_is_stuck() -> None:
    late = {"since_s": NOW_S - 901, "began_at_s": NOW_S - 901}
    assert seen(P.ENABLING, S.ERROR, **TRIED | late).reason_code == "stuck"  # type: ignore[arg-type]
    assert seen(P.ENABLING, S.ERROR, **TRIED | late | {"began_at_s": 0}).reason_code == "failed"  # type: ignore[arg-type]
    assert seen(P.SWITCHING_ON, S.OFFLINE, **TRIED | late).reason_code == "failed"  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", [None, Outcome.UNKNOWN, Outcome.DROPPED])
def test_a_stop_that_nobody_answers_fails_however_often_it_is_told(outcome: Outcome | None) -> None:
    told = {"attempts": 9, "outcome": outcome, "outcome_at_s": None if outcome is None else NOW_S - 601}
    # Power control wants to be left alone for longer, and the host has had its time all the same.
    failed = seen(P.SWITCHING_OFF, S.OFFLINE, **told, since_s=NOW_S - 1201, not_before_s=NOW_S + 3000)  # type: ignore[arg-type]
    assert (failed.phase, failed.failures, failed.since_s) == (P.SWITCHING_OFF, 1, NOW_S)
    waits = seen(P.SWITCHING_OFF, S.OFFLINE, **told, since_s=NOW_S - 1201, failures=1, not_before_s=NOW_S - 300)  # type: ignore[arg-type]
    assert waits.failures == 1


def test_a_stop_that_is_held_back_keeps_its_time() -> None:
    held = {"attempts": 2, "outcome": Outcome.HELD_BACK, "outcome_at_s": NOW_S - 5, "since_s": NOW_S - 1000}
    waits = seen(P.SWITCHING_OFF, S.OFFLINE, **held)  # type: ignore[arg-type]
    assert (waits.failures, waits.outcome, waits.since_s) == (0, None, NOW_S - 1000)


IDS_MOVED = {0: "host-1", 1: "host-0"}
OTHERS = {0: "alpha", 1: "beta"}
ONE_GONE = {0: "alpha"}
RENAMED = {0: "alpha", 1: "host-1"}


def renamed(phase: PowerPhase, state: HostState, names: dict[int, str], **more: object) -> ObservedPower:
    """Two hosts of ours, as they are seen under these names."""
    before = PowerSequence(0, "host-0", phase, NOW_S - 60, "idle", "nobody is on it", began_at_s=NOW_S - 60)
    asleep = PowerSequence(1, "host-1", P.ASLEEP, NOW_S - 60, "idle", "nobody is on it")
    hosts = {one: replace(host(one), name=name, state=state) for one, name in names.items()}
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, hosts, {})
    ledger = Ledger(power_sequences={0: replace(before, **more), 1: asleep})
    return observe_power(snapshot, ledger, {}, RULES, NOW_S)


@pytest.mark.parametrize("names", [IDS_MOVED, OTHERS, ONE_GONE], ids=["ids moved", "others", "one is gone"])
@pytest.mark.parametrize(
    ("phase", "state", "more"),
    [
        (P.EMPTYING, S.DISABLED, TRIED),
        (P.SWITCHING_OFF, S.OFFLINE, TRIED),
        (P.SWITCHING_ON, S.OFFLINE, TRIED),
        (P.ASLEEP, S.OFFLINE, {}),
        (P.FAILED, S.INIT, STUCK),
    ],
)
def test_another_host_that_has_the_id_of_one_is_not_in_our_hand(
    phase: PowerPhase, state: HostState, more: dict[str, object], names: dict[int, str]
) -> None:
    seen = renamed(phase, state, names, **more)
    of_it = seen.known.sequences[0]
    assert (of_it.phase, of_it.host_name, of_it.failures) == (P.AWAKE, "host-0", 0)
    (told, *_) = [one for one in seen.discrepancies if one.code == "power-another-host"]
    assert f"host host-0: OpenNebula has host {names[0]} under its id 0" in told.text
    again = observe_power(
        PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {0: replace(host(0), name=names[0], state=state)}, {}),
        Ledger(power_sequences=seen.known.sequences), {}, RULES, NOW_S + 15,
    )  # fmt: skip
    assert (again.changed, again.discrepancies) == ((), ())


@pytest.mark.parametrize("phase", [P.ASLEEP, P.SWITCHING_ON, P.AWAKE])
def test_a_host_that_was_renamed_alone_is_the_same(phase: PowerPhase) -> None:
    seen = renamed(phase, S.OFFLINE, RENAMED)
    assert (seen.known.sequences[0].phase, seen.known.sequences[0].host_name) == (phase, "alpha")
    assert not seen.discrepancies
    assert [one.host_name for one in seen.changed] == ["alpha"]


def test_a_pause_that_a_clock_set_back_has_put_far_off_is_over() -> None:
    far = {"since_s": NOW_S + 86_400, "not_before_s": NOW_S + 86_700}
    assert seen(P.FAILED, S.OFFLINE, **far).phase is P.ASLEEP  # type: ignore[arg-type]
    assert seen(P.FAILED, S.OFFLINE, not_before_s=NOW_S + 300).phase is P.FAILED


@pytest.mark.parametrize("phase", [P.EMPTYING, P.SWITCHING_OFF, P.SWITCHING_ON, P.ENABLING, P.CUTTING_POWER])
def test_what_a_clock_set_back_has_put_into_the_future_has_its_times_from_now_on(phase: PowerPhase) -> None:
    day = {"since_s": NOW_S + 86_400, "began_at_s": NOW_S + 86_400, "outcome_at_s": NOW_S + 86_410}
    state = {P.EMPTYING: S.DISABLED, P.ENABLING: S.ERROR}.get(phase, S.OFFLINE)
    after = seen(phase, state, vm=phase is P.EMPTYING, **TRIED | day | {"emptied_vm_ids": (5,)})  # type: ignore[arg-type]
    assert after.phase is phase
    assert (after.since_s, after.began_at_s, after.outcome_at_s) == (NOW_S, NOW_S, NOW_S)


def test_what_is_read_by_a_clock_set_back_tells_of_an_order_given_before() -> None:
    far = {"since_s": NOW_S + 86_400, "outcome_at_s": NOW_S + 86_410}
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {0: replace(host(0), state=S.OFFLINE)}, {})
    before = PowerSequence(0, "host-0", P.SWITCHING_OFF, reason_code="idle", reason_text="", **TRIED | far)  # type: ignore[arg-type]
    answer = PowerOutcome(PowerAnswer.ACCEPTED, "")
    reading = PowerReport(0, PowerStepKind.READ_POWER, answer, NOW_S + 10, PowerStatus.OFF)
    for now_s in (NOW_S, NOW_S + 15):
        found = observe_power(snapshot, Ledger(power_sequences={0: before}), {0: reading}, RULES, now_s)
        before = found.known.sequences[0]
    assert before.phase is P.ASLEEP


@pytest.mark.parametrize(("phase", "state"), [(P.AWAKE, S.MONITORED), (P.ASLEEP, S.OFFLINE)])
def test_what_rests_loses_the_pause_that_a_clock_set_back_has_put_far_off(phase: PowerPhase, state: HostState) -> None:
    """It would be added to the next one."""
    watch = PowerWatch()
    before = PowerSequence(0, "host-0", phase, NOW_S, "failed", "no answer", failures=1, not_before_s=NOW_S + 300)
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {0: replace(host(0), state=state)}, {})
    assert observe_power(snapshot, Ledger(power_sequences={0: before}), {}, RULES, NOW_S, watch).changed == ()
    again = replace(snapshot, changed_vm_ids=frozenset(), changed_host_ids=frozenset())
    (after,) = observe_power(again, Ledger(power_sequences={0: before}), {}, RULES, NOW_S - 9000, watch).changed
    assert (after.since_s, after.not_before_s, after.failures) == (NOW_S, 0, 1)
    assert observe_power(again, Ledger(power_sequences={0: after}), {}, RULES, NOW_S - 8990, watch).changed == ()


@pytest.mark.parametrize(
    ("since_s", "power", "after"),
    [
        (NOW_S - 5, None, P.SWITCHING_ON),
        (NOW_S - 5, PowerStatus.ON, P.SWITCHING_ON),
        (NOW_S + 5, PowerStatus.ON, P.SWITCHING_ON),
        (NOW_S - 5, PowerStatus.OFF, P.SWITCHING_ON),
        (NOW_S - 601, PowerStatus.ON, P.AWAKE),
    ],
)
def test_what_may_lose_its_power_is_not_on_whatever_is_seen(
    since_s: int, power: PowerStatus | None, after: PowerPhase
) -> None:
    assert seen(P.SWITCHING_ON, S.MONITORED, power=power, reason_code="losing-power", since_s=since_s).phase is after


def test_that_it_was_enabled_is_known_until_it_is_in_nobody_s_hand() -> None:
    late = {"since_s": NOW_S - 901, "began_at_s": NOW_S - 901}
    assert seen(P.ENABLING, S.ERROR, **TRIED | late).enabled  # type: ignore[arg-type]
    assert not seen(P.ENABLING, S.OFFLINE, **LOST | late).enabled  # type: ignore[arg-type]
    cut = seen(P.CUTTING_POWER, S.ERROR, power=PowerStatus.OFF, **TRIED, enabled=True)  # type: ignore[arg-type]
    assert (cut.phase, cut.enabled) == (P.SWITCHING_ON, True)
    assert not seen(P.ENABLING, S.MONITORED, **TRIED, enabled=True).enabled  # type: ignore[arg-type]


def test_a_host_that_is_gone_is_nobody_s_any_more() -> None:
    before = PowerSequence(7, "host-7", P.ASLEEP, NOW_S - 60, "idle", "nobody is on it")
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {}, {})
    found = observe_power(snapshot, Ledger(power_sequences={7: before}), {}, RULES, NOW_S)
    (after,) = found.changed
    told = "it was deleted in OpenNebula: it is forgotten, and its power is left off: switch it on by hand"
    assert (after.phase, after.reason_code) == (P.AWAKE, "deleted-unpowered")
    assert after.reason_text.startswith(told)
    assert [(one.code, told in one.text) for one in found.discrepancies] == [("power-deleted-unpowered", True)]
    again = observe_power(snapshot, Ledger(power_sequences={7: after}), {}, RULES, NOW_S + 60)
    assert (again.changed, again.discrepancies) == ((), ())


@pytest.mark.parametrize(
    ("phase", "attempts", "has_power"),
    [
        (P.EMPTYING, 1, True),
        (P.CHECKING, 0, True),
        (P.SWITCHING_OFF, 0, True),
        (P.SWITCHING_OFF, 1, False),
        (P.SWITCHING_ON, 0, False),
        (P.ENABLING, 0, True),
        (P.FAILED, 0, False),
    ],
)
def test_whether_a_deleted_host_may_be_without_power_is_told(phase: PowerPhase, attempts: int, has_power: bool) -> None:
    before = PowerSequence(7, "host-7", phase, NOW_S - 60, "idle", "nobody is on it", attempts=attempts)
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {}, {})
    found = observe_power(snapshot, Ledger(power_sequences={7: before}), {}, RULES, NOW_S)
    (after,) = found.changed
    assert after.is_deleted
    assert (after.reason_code == "deleted", found.discrepancies == ()) == (has_power, has_power)
    assert ("see by hand whether it is on" in after.reason_text) is not has_power


def test_what_happened_to_a_host_is_told_once_whatever_phases_follow() -> None:
    before = PowerSequence(0, "host-0", P.SWITCHING_OFF, NOW_S - 60, "idle", "nobody is on it", **REFUSED)  # type: ignore[arg-type]
    told = []
    for state in (S.OFFLINE, S.OFFLINE, S.MONITORED, S.MONITORED):
        snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {0: replace(host(0), state=state)}, {})
        found = observe_power(snapshot, Ledger(power_sequences={0: before}), {}, RULES, NOW_S)
        told += [one.text for one in found.discrepancies]
        before = found.known.sequences[0]
    assert before.phase is P.AWAKE
    (once,) = told
    assert once.startswith("host host-0: it cannot be switched off")


@pytest.mark.parametrize("phase", [P.AWAKE, P.SWITCHING_OFF, P.ASLEEP, P.SWITCHING_ON])
def test_a_host_that_cannot_be_read_stays_what_it_is(phase: PowerPhase) -> None:
    before = PowerSequence(7, "host-7", phase, NOW_S - 60, "idle", "nobody is on it")
    snapshot = PoolSnapshot(NOW_S, "7.4.0", 0, RaftState.SOLO, {}, {}, unreadable_host_ids=frozenset({7}))
    watch, ledger = PowerWatch(), Ledger(power_sequences={7: before})
    for _ in range(2):
        found = observe_power(snapshot, ledger, {}, RULES, NOW_S, watch)
        assert (found.changed, found.discrepancies, dict(found.known.sequences)) == ((), (), {})
    readable = replace(snapshot, hosts={7: replace(host(7), state=S.OFFLINE)}, unreadable_host_ids=frozenset())
    known = observe_power(readable, ledger, {}, RULES, NOW_S, watch).known
    assert known.sequences[7].phase is phase


def test_quiet_hours_over_midnight_put_off_and_bring_forward() -> None:
    day_s = 86_400
    rules = replace(RULES, quiet_hours=(QuietHours(22 * 60, 6 * 60),))
    quiet_s = 100 * day_s + 23 * 3600 + 30
    assert rules.is_quiet(quiet_s)
    assert not rules.is_quiet(100 * day_s + 6 * 3600)
    assert first_switching_s(rules, quiet_s) == 101 * day_s + 6 * 3600
    assert first_switching_s(rules, 100 * day_s) == 100 * day_s + 6 * 3600
    assert 0 < 100 * day_s + 22 * 3600 - last_switching_s(rules, quiet_s, 100 * day_s) <= 60
    assert last_switching_s(rules, quiet_s, quiet_s - 60) == quiet_s - 60
