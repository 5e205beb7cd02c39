"""The power states of a host are a table."""

from __future__ import annotations

from itertools import product

import pytest

from one_preempt.simulation.simulated_cloud.host_power_state import (
    TRANSITIONS,
    HostPowerEvent,
    HostPowerState,
    next_power_state,
)


def walk(start: HostPowerState, *events: HostPowerEvent) -> list[HostPowerState | None]:
    states: list[HostPowerState | None] = []
    state: HostPowerState | None = start
    for event in events:
        assert state is not None
        state = next_power_state(state, event)
        states.append(state)
    return states


def test_a_host_wakes_serves_and_sleeps_again() -> None:
    event, state = HostPowerEvent, HostPowerState
    assert walk(
        state.OFF,
        event.WAKE,
        event.BOOTED,
        event.FIRST_LEASE,
        event.LAST_LEASE_LEFT,
        event.SWITCH_OFF,
        event.SHUT_DOWN,
    ) == [state.BOOTING, state.IDLE, state.BUSY, state.IDLE, state.SHUTTING_DOWN, state.OFF]


@pytest.mark.parametrize("state", sorted(set(HostPowerState) - {HostPowerState.IDLE}))
def test_only_an_idle_host_is_switched_off(state: HostPowerState) -> None:
    assert next_power_state(state, HostPowerEvent.SWITCH_OFF) is None


@pytest.mark.parametrize("state", sorted(set(HostPowerState) - {HostPowerState.OFF}))
def test_only_a_host_that_is_off_is_woken(state: HostPowerState) -> None:
    assert next_power_state(state, HostPowerEvent.WAKE) is None


def test_a_host_that_does_not_come_up_has_failed_and_may_come_up_late() -> None:
    event, state = HostPowerEvent, HostPowerState
    assert walk(state.BOOTING, event.TIMED_OUT, event.BOOTED) == [state.FAILED, state.IDLE]
    assert walk(state.BOOTING, event.TIMED_OUT, event.MENDED) == [state.FAILED, state.OFF]


def test_every_state_can_be_reached_and_left() -> None:
    reached = {HostPowerState.OFF}
    for _ in HostPowerState:
        reached |= {after for (before, _event), after in TRANSITIONS.items() if before in reached}
    assert reached == set(HostPowerState)
    assert {before for before, _event in TRANSITIONS} == set(HostPowerState)


def test_every_event_leads_somewhere_else() -> None:
    assert {event for _state, event in TRANSITIONS} == set(HostPowerEvent)
    assert all(next_power_state(*at) != at[0] for at in product(HostPowerState, HostPowerEvent))


def test_leases_run_on_idle_and_busy_hosts_alone() -> None:
    assert {state for state in HostPowerState if state.is_on} == {HostPowerState.IDLE, HostPowerState.BUSY}
