"""Hosts that are switched in different ways, behind one control."""

from __future__ import annotations

from collections.abc import Mapping

from one_preempt.core.model.power import PowerOutcome, PowerReading
from one_preempt.ports import PowerControl


class PowerControlByHost:
    """Implements `PowerControl` by handing each host to the control that is named for it, else to `usual`."""

    def __init__(self, usual: PowerControl, named: Mapping[str, PowerControl]) -> None:
        self._usual = usual
        self._named = dict(named)

    def switch_on(self, host: str) -> PowerOutcome:
        """As the host's own control does."""
        return self._control(host).switch_on(host)

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """As the host's own control does."""
        return self._control(host).switch_off(host, hard)

    def status(self, host: str) -> PowerReading:
        """As the host's own control does."""
        return self._control(host).status(host)

    def _control(self, host: str) -> PowerControl:
        return self._named.get(host, self._usual)
