"""Whether a machine is on, as a table: which event leads from which state to which.

    OFF --wake--> BOOTING --booted--> IDLE <--place / empty--> BUSY
     ^               |                 |                         |
     |          timed out          switch off                   lost
     |               v                 v                         v
     |            FAILED <---- SHUTTING_DOWN (timed out)       FAILED --mended--> OFF
     +------------------------ shut down

So it is in truth. What the scheduler knows and intends of a host's power is a `PowerSequence`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class HostPowerState(StrEnum):
    """What a host is doing, as far as power is concerned. IDLE and BUSY are on: without and with leases."""

    OFF = "off"
    BOOTING = "booting"
    IDLE = "idle"
    BUSY = "busy"
    SHUTTING_DOWN = "shutting-down"
    FAILED = "failed"

    @property
    def is_on(self) -> bool:
        """Can leases run there now?"""
        return self in (HostPowerState.IDLE, HostPowerState.BUSY)


class HostPowerEvent(StrEnum):
    """What was ordered (WAKE, SWITCH_OFF) or seen."""

    WAKE = "wake"
    BOOTED = "booted"
    FIRST_LEASE = "first-lease"
    LAST_LEASE_LEFT = "last-lease-left"
    SWITCH_OFF = "switch-off"
    SHUT_DOWN = "shut-down"
    TIMED_OUT = "timed-out"
    LOST = "lost"
    MENDED = "mended"


_S = HostPowerState
_E = HostPowerEvent

TRANSITIONS: Mapping[tuple[HostPowerState, HostPowerEvent], HostPowerState] = MappingProxyType(
    {
        (_S.OFF, _E.WAKE): _S.BOOTING,
        # Somebody pressed the button: what is up is up.
        (_S.OFF, _E.BOOTED): _S.IDLE,
        (_S.BOOTING, _E.BOOTED): _S.IDLE,
        (_S.BOOTING, _E.TIMED_OUT): _S.FAILED,
        (_S.BOOTING, _E.LOST): _S.FAILED,
        (_S.IDLE, _E.FIRST_LEASE): _S.BUSY,
        (_S.IDLE, _E.SWITCH_OFF): _S.SHUTTING_DOWN,
        (_S.IDLE, _E.LOST): _S.FAILED,
        (_S.BUSY, _E.LAST_LEASE_LEFT): _S.IDLE,
        (_S.BUSY, _E.LOST): _S.FAILED,
        (_S.SHUTTING_DOWN, _E.SHUT_DOWN): _S.OFF,
        (_S.SHUTTING_DOWN, _E.TIMED_OUT): _S.FAILED,
        (_S.FAILED, _E.BOOTED): _S.IDLE,
        (_S.FAILED, _E.MENDED): _S.OFF,
    }
)
"""Every step there is. What is not here does not happen: a host with leases is never switched off."""


def next_power_state(state: HostPowerState, event: HostPowerEvent) -> HostPowerState | None:
    """Where the event leads, or None where it does not apply."""
    return TRANSITIONS.get((state, event))
