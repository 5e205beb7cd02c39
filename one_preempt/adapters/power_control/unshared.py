"""No order for one host to what another host names as its own: it would switch that one, with whoever is on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from one_preempt.adapters.power_control.controllers import ADDRESS_ATTRIBUTE
from one_preempt.adapters.power_control.failure import PowerFailure, outcome_of
from one_preempt.configuration.power_control_settings import Place, PowerControlSettings
from one_preempt.core.model.power import ListedHost, PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.ports import PowerControl

HostsNow = Mapping[str, ListedHost]
HostsWith = Callable[[str], HostsNow]
"""All hosts by name, of which the one of that name is one. Raises `CloudUnavailable`."""


def no_others(_host: str) -> HostsNow:
    """For hosts of which nobody knows the others."""
    return {}


class UnsharedPowerControl:
    """Implements `PowerControl` around another one, which is asked only about hosts with a place of their own."""

    def __init__(self, control: PowerControl, settings: PowerControlSettings, hosts_with: HostsWith) -> None:
        self._control = control
        self._settings = settings
        self._hosts_with = hosts_with
        # Who is at each place, by what was said of all hosts last.
        self._hosts_at: tuple[HostsNow, Mapping[Place, list[str]]] | None = None

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
        hosts = self._hosts_with(host)
        place = self._settings.place_of(host, _named_address(hosts.get(host, ListedHost())))
        others = set() if place is None else {*self._at(place, hosts)} - {host}
        if others:
            raise PowerFailure(
                PowerAnswer.MISCONFIGURED,
                f"{host}: its address for power control is that of {min(others)} as well, and an order would switch "
                f"both or the wrong one: give each its own, in power.control or as {ADDRESS_ATTRIBUTE}",
            )
        return ""

    def _at(self, place: Place, hosts: HostsNow) -> Sequence[str]:
        """Who is there. A host that is not handed over may be as well, or else nobody knows where it is: it is not at
        an address that is the same for all."""
        if self._hosts_at is None or self._hosts_at[0] is not hosts:
            hosts_at: dict[Place, list[str]] = {}
            for name, host in hosts.items():
                address = _named_address(host)
                of_host = self._settings.place_of(name, address)
                if of_host is not None and (host.handed_over or self._settings.is_place_told(name, address)):
                    hosts_at.setdefault(of_host, []).append(name)
            self._hosts_at = hosts, hosts_at
        return self._hosts_at[1].get(place, ())


def _named_address(host: ListedHost) -> str | None:
    return host.attributes.get(ADDRESS_ATTRIBUTE)
