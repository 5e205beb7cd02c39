"""What hosts do, as stays: read off where their power stands."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from one_preempt.core.energy.host_use import load_of, stays_to_write
from one_preempt.core.model.host import Host, HostState
from one_preempt.core.model.power_history import HostUse, HostUseStay
from one_preempt.core.model.power_sequence import KnownPower, PowerBounds, PowerPhase, PowerSequence
from tests.core.recounted_cluster import NOW_S, host, running

P = PowerPhase
ENTERED_S = NOW_S - 20
OFF = HostUseStay(0, "host-0", "default", HostUse.OFF, "PEMP", NOW_S - 900)
ON = replace(OFF, use=HostUse.ON)


def written(
    sequence: PowerSequence | None,
    *standing: HostUseStay,
    seen: Host | None = None,
    policy: str = "PEMP",
    handed_over: bool = True,
    samples_load: bool = False,
    now_s: int = NOW_S,
) -> tuple[HostUseStay, ...]:
    bounds = PowerBounds(frozenset({0}) if handed_over else frozenset())
    known = KnownPower({} if sequence is None else {0: sequence}, bounds=bounds)
    hosts = {0: host(0) if seen is None else seen}
    before = {stay.host_id: stay for stay in standing}
    return stays_to_write(hosts, known, policy, before, now_s, samples_load=samples_load)


def in_phase(phase: PowerPhase, attempts: int = 0, began_at_s: int = 0) -> PowerSequence:
    return PowerSequence(0, "host-0", phase, ENTERED_S, "idle", "nobody is on it", attempts, began_at_s=began_at_s)


@pytest.mark.parametrize(
    ("sequence", "use"),
    [
        (None, HostUse.ON),
        (in_phase(P.AWAKE), HostUse.ON),
        (in_phase(P.DISABLING, 1), HostUse.ON),
        (in_phase(P.EMPTYING), HostUse.ON),
        (in_phase(P.GOING_OFFLINE, 1), HostUse.ON),
        (in_phase(P.CHECKING), HostUse.ON),
        (in_phase(P.SWITCHING_OFF), HostUse.ON),
        (in_phase(P.SWITCHING_OFF, 1), HostUse.SHUTTING_DOWN),
        (in_phase(P.ASLEEP), HostUse.OFF),
        (in_phase(P.SWITCHING_ON), HostUse.OFF),
        (in_phase(P.SWITCHING_ON, 1), HostUse.BOOTING),
        (in_phase(P.ENABLING, 1, began_at_s=ENTERED_S), HostUse.BOOTING),
        (in_phase(P.ENABLING, 1), HostUse.ON),
        (in_phase(P.FAILED), HostUse.FAILED),
        (in_phase(P.CUTTING_POWER, 1), HostUse.FAILED),
    ],
)
def test_every_phase_is_a_use(sequence: PowerSequence | None, use: HostUse) -> None:
    (stay,) = written(sequence)
    assert (stay.use, stay.since_s, stay.until_s, stay.policy) == (use, NOW_S, None, "PEMP")
    if use is not HostUse.ON:
        # One that was on before entered it with its phase.
        expected = (replace(ON, until_s=ENTERED_S), replace(stay, since_s=ENTERED_S))
        assert written(sequence, ON) == (expected if use is not HostUse.OFF or sequence == in_phase(P.ASLEEP) else ())


def test_nothing_is_written_where_nothing_changed() -> None:
    assert written(in_phase(P.ASLEEP), OFF) == ()
    assert written(None, ON, seen=host(0, [running(1, 0)])) == ()


def test_a_new_load_is_written_when_loads_are_looked_at() -> None:
    used = host(0, [running(1, 0)])
    assert written(None, ON, seen=used, samples_load=True) == (
        replace(ON, until_s=NOW_S),
        replace(ON, since_s=NOW_S, load_percent=50),
    )
    assert written(in_phase(P.ASLEEP), OFF, seen=used, samples_load=True) == ()


def test_another_policy_is_another_stay_from_now_on() -> None:
    assert written(in_phase(P.ASLEEP), OFF, policy="SESP") == (
        replace(OFF, until_s=NOW_S),
        replace(OFF, since_s=NOW_S, policy="SESP"),
    )


@pytest.mark.parametrize("state", [HostState.DISABLED, HostState.OFFLINE, HostState.ERROR])
def test_a_host_that_others_keep_out_of_use_is_not_counted(state: HostState) -> None:
    seen = replace(host(0), state=state)
    assert written(None, ON, seen=seen) == (replace(ON, until_s=NOW_S),)
    assert written(None, seen=seen) == ()
    (stay,) = written(in_phase(P.ASLEEP), seen=seen)
    assert stay.use is HostUse.OFF


def test_a_host_that_is_gone_or_not_handed_over_any_more_is_not_counted() -> None:
    assert written(None, ON, handed_over=False) == (replace(ON, until_s=NOW_S),)
    assert written(in_phase(P.ASLEEP), OFF, handed_over=False) == ()
    assert stays_to_write({}, KnownPower(), "", {0: ON}, NOW_S, samples_load=False) == (replace(ON, until_s=NOW_S),)


def test_what_lasted_no_time_is_written_over() -> None:
    just_now = replace(ON, since_s=ENTERED_S)
    assert written(in_phase(P.ASLEEP), just_now) == (replace(OFF, since_s=ENTERED_S),)


def test_a_clock_that_is_set_back_makes_no_time_run_backwards() -> None:
    (stay,) = written(in_phase(P.ASLEEP), replace(ON, since_s=NOW_S + 500))
    assert (stay.use, stay.since_s) == (HostUse.OFF, NOW_S + 500)
    assert written(None, replace(ON, since_s=NOW_S + 500), handed_over=False)[0].until_s == NOW_S + 500


def test_loads_are_rounded_to_whole_steps_and_end_at_full() -> None:
    big = replace(host(0, cpus=100), cpu_usage_centi=250)
    assert [load_of(replace(big, cpu_usage_centi=used)) for used in (0, 499, 500, 1499, 9900, 99_999, -5)] == [
        0, 0, 10, 10, 100, 100, 0,
    ]  # fmt: skip
    assert load_of(replace(host(0), max_cpu_centi=0, total_cpu_centi=0)) == 0


@pytest.mark.parametrize("phase", [P.ASLEEP, P.ENABLING])
def test_a_new_name_is_written_into_the_stay_that_lasts(phase: PowerPhase) -> None:
    sequence = in_phase(phase, 1, began_at_s=ENTERED_S)
    before = replace(OFF, use=HostUse.OFF if phase is P.ASLEEP else HostUse.BOOTING)
    renamed = replace(host(0), name="elsewhere", cluster_name="attic")
    after = replace(before, host_name="elsewhere", cluster_name="attic")
    assert written(sequence, before, seen=renamed) == (after,)
    assert written(sequence, after, seen=renamed) == ()
