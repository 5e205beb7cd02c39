"""No order for one host to what another host names as its own: it would switch that one, with whoever is on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from one_preempt.adapters.power_control.controllers import ADDRESS_ATTRIBUTE
from one_preempt.adapters.power_control.failure import PowerFailure, outcome_of
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.ports import PowerControl
from one_preempt.power_control_settings import Place, PowerControlSettings

SwitchedNow = Mapping[str, Mapping[str, str]]
SwitchedHosts = Callable[[], SwitchedNow]


def no_others() -> SwitchedNow:
    """For hosts of which nobody knows the others."""
    return {}


class UnsharedPowerControl:
    """Implements `PowerControl` around another one, which is asked only about hosts with a place of their own."""

    def __init__(self, control: PowerControl, settings: PowerControlSettings, switched: SwitchedHosts) -> None:
        """`switched` gives by name the template attributes of all hosts that may be meant; it may raise
        `CloudUnavailable`."""
        self._control = control
        self._settings = settings
        self._switched = switched
        # Who is at each place, by what was said of all hosts last.
        self._hosts_at: tuple[SwitchedNow, Mapping[Place, list[str]]] | None = None

    def switch_on(self, host: str) -> PowerOutcome:
        """As the control does."""
        return self._refusal(host) or self._control.switch_on(host)

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """As the control does."""
        return self._refusal(host) or self._control.switch_off(host, hard)

    def status(self, host: str) -> PowerReading:
        """As the control does."""
        refusal = self._refusal(host)
        return PowerReading(PowerStatus.UNKNOWN, refusal) if refusal is not None else self._control.status(host)

    def _refusal(self, host: str) -> PowerOutcome | None:
        outcome = outcome_of(lambda: self._demand_own_place(host))
        return None if outcome.accepted else outcome

    def _demand_own_place(self, host: str) -> str:
        if self._settings.method_of(host) in ("none", "command"):
            return ""
        switched = self._switched()
        place = self._settings.place_of(host, switched.get(host, {}).get(ADDRESS_ATTRIBUTE))
        others = set() if place is None else {*self._at(place, switched)} - {host}
        if others:
            raise PowerFailure(
                PowerAnswer.MISCONFIGURED,
                f"{host}: its address for power control is that of {min(others)} as well, and an order would switch "
                f"both or the wrong one: give each its own, in power.control or as {ADDRESS_ATTRIBUTE}",
            )
        return ""

    def _at(self, place: Place, switched: SwitchedNow) -> Sequence[str]:
        if self._hosts_at is None or self._hosts_at[0] is not switched:
            hosts_at: dict[Place, list[str]] = {}
            for host, attributes in switched.items():
                of_host = self._settings.place_of(host, attributes.get(ADDRESS_ATTRIBUTE))
                if of_host is not None:
                    hosts_at.setdefault(of_host, []).append(host)
            self._hosts_at = switched, hosts_at
        return self._hosts_at[1].get(place, ())
