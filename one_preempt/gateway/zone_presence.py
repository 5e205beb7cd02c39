"""Which zones answer: each question to a zone goes through here, so that one that is away is known as such."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from one_preempt.core.gateway.requests import LONGEST_TEXT
from one_preempt.core.model.plain_words import plain_words
from one_preempt.errors import OnePreemptError
from one_preempt.gateway.desk import GatewayDesk
from one_preempt.gateway.said_once import SaidOnce
from one_preempt.gateway_ports import AnotherZone, ZoneWatcher

T = TypeVar("T")


class ZonePresence:
    """For one thread. `away` has the zones that gave no answer the last time, each with the reason."""

    def __init__(self, zones: Mapping[str, ZoneWatcher], desk: GatewayDesk, said: SaidOnce) -> None:
        self.away: dict[str, str] = {}
        self._zones = zones
        self._desk = desk
        self._said = said

    def __contains__(self, zone: str) -> bool:
        return zone in self._zones

    def __iter__(self) -> Iterator[str]:
        return iter(self._zones)

    def asked(self, zone: str, question: Callable[[ZoneWatcher], T]) -> T | None:
        """The zone's answer; None where it gives none, which is said, and set aside at the desk."""
        try:
            answer = question(self._zones[zone])
        except OnePreemptError as error:
            self._is_away(zone, error)
            return None
        self._is_there(zone)
        return answer

    def _is_away(self, zone: str, error: OnePreemptError) -> None:
        self.away[zone] = plain_words(str(error), LONGEST_TEXT)
        self._desk.set_aside(zone, is_another=isinstance(error, AnotherZone))
        self._said.once(f"zone {zone}: {self.away[zone]}")

    def _is_there(self, zone: str) -> None:
        if self.away.pop(zone, None) is not None:
            self._desk.bring_back(zone)
            self._said.forget(f"zone {zone}:")
            self._said.say(f"zone {zone} answers again")
