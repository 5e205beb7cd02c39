"""A power control that does not insist: it remembers what failed and holds orders back for a while."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from one_preempt.adapters.power_control.breaker import (
    Attempt,
    Standing,
    after_failure,
    after_order,
    is_overdue,
    withdrawn,
)
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.ports import Clock, PowerControl
from one_preempt.power_settings import PatienceSettings

_NEEDED = {
    Attempt.ON: (Attempt.LOGIN, Attempt.ON, Attempt.BOOT),
    Attempt.OFF: (Attempt.LOGIN, Attempt.OFF),
    Attempt.LOGIN: (Attempt.LOGIN,),
}
_SHOWN = {Attempt.ON: PowerStatus.ON, Attempt.OFF: PowerStatus.OFF}
_COUNTED = (PowerAnswer.REFUSED, PowerAnswer.UNREACHABLE, PowerAnswer.NO_ANSWER)
Standings = Mapping[tuple[str, Attempt], Standing]


class GuardedPowerControl:
    """Implements `PowerControl` around another one. Nothing here sleeps: what must wait is answered HELD_BACK, with
    the instant when it makes sense again, and whoever plans asks again then.

    An order that was taken and does not show in the readings within its time counts as failed. The one who sees
    hosts come up, or not, says so by `came_up` and `did_not_come_up`.
    """

    def __init__(
        self, control: PowerControl, clock: Clock, patience: PatienceSettings, standings: Standings | None = None
    ) -> None:
        """`standings` are those that another one had before a restart."""
        self._control = control
        self._clock = clock
        self._patience = patience
        self._standings = dict(standings or {})
        self._lock = Lock()

    def switch_on(self, host: str) -> PowerOutcome:
        """Order the start, unless that failed too often of late."""
        return self._held_back(host, Attempt.ON) or self._settled(host, Attempt.ON, self._control.switch_on(host))

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Order the stop, unless that failed too often of late."""
        return self._held_back(host, Attempt.OFF) or self._settled(
            host, Attempt.OFF, self._control.switch_off(host, hard)
        )

    def status(self, host: str) -> PowerReading:
        """Read it, unless the controller did not let us in of late."""
        held_back = self._held_back(host, Attempt.LOGIN)
        if held_back is not None:
            return PowerReading(PowerStatus.UNKNOWN, held_back)
        reading = self._control.status(host)
        if reading.outcome.answer is PowerAnswer.DENIED:
            return PowerReading(reading.status, self._failed(host, Attempt.LOGIN, reading.outcome))
        if reading.outcome.accepted:
            self._let_in(host)
        for attempt in _SHOWN:
            self._compare(host, attempt, reading.status)
        return reading

    def came_up(self, host: str) -> None:
        """OpenNebula monitors the host: all failures on the way are forgotten."""
        with self._lock:
            self._standings.pop((host, Attempt.BOOT), None)
            self._standings.pop((host, Attempt.ON), None)

    def did_not_come_up(self, host: str) -> PowerOutcome:
        """The host has power and OpenNebula still does not monitor it; the answer tells when to try again."""
        why = f"{host} was switched on and did not come up"
        return self._failed(host, Attempt.BOOT, PowerOutcome(PowerAnswer.NO_ANSWER, why))

    def standings(self) -> Standings:
        """What is remembered, for whoever keeps it across a restart."""
        with self._lock:
            return dict(self._standings)

    def _held_back(self, host: str, attempt: Attempt) -> PowerOutcome | None:
        now_s = self._clock.now_s()
        with self._lock:
            standings = [self._standings.get((host, needed), Standing()) for needed in _NEEDED[attempt]]
        worst = max(standings, key=lambda standing: standing.not_before_s)
        if worst.not_before_s <= now_s:
            return None
        text = (
            f"{host} is left alone for {worst.not_before_s - now_s} s, "
            f"after {worst.failures} failure{'s' if worst.failures > 1 else ''} in a row; the last one: {worst.why}"
        )
        return PowerOutcome(PowerAnswer.HELD_BACK, text, worst.not_before_s)

    def _settled(self, host: str, attempt: Attempt, outcome: PowerOutcome) -> PowerOutcome:
        if outcome.answer is PowerAnswer.DENIED:
            return self._failed(host, Attempt.LOGIN, outcome)
        if outcome.answer is PowerAnswer.REFUSED and self._control.status(host).status is _SHOWN[attempt]:
            # Some controllers refuse what is so already.
            outcome = PowerOutcome(PowerAnswer.ACCEPTED, f"{host} is {_SHOWN[attempt].value} already")
        if outcome.answer in _COUNTED:
            return self._failed(host, attempt, outcome)
        if outcome.accepted:
            self._await(host, attempt)
        return outcome

    def _await(self, host: str, attempt: Attempt) -> None:
        """From now on the readings are expected to show `attempt`, and not the contrary any more."""
        now_s = self._clock.now_s()
        contrary = host, Attempt.OFF if attempt is Attempt.ON else Attempt.ON
        self._let_in(host)
        with self._lock:
            self._standings[host, attempt] = after_order(self._standings.get((host, attempt), Standing()), now_s)
            if contrary in self._standings:
                self._standings[contrary] = withdrawn(self._standings[contrary])

    def _let_in(self, host: str) -> None:
        with self._lock:
            self._standings.pop((host, Attempt.LOGIN), None)

    def _compare(self, host: str, attempt: Attempt, status: PowerStatus) -> None:
        """Count an order that does not show in time as failed, and forget the failures of one that does."""
        now_s = self._clock.now_s()
        with self._lock:
            standing = self._standings.get((host, attempt))
            if standing is None:
                return
            effect_s = self._patience.on_effect_s if attempt is Attempt.ON else self._patience.off_effect_s
            if status is _SHOWN[attempt]:
                del self._standings[host, attempt]
            elif is_overdue(standing, effect_s, now_s):
                why = f"the order was taken, and after {effect_s} s the power is still {status.value}"
                self._standings[host, attempt] = after_failure(standing, attempt, why, now_s, self._patience)

    def _failed(self, host: str, attempt: Attempt, outcome: PowerOutcome) -> PowerOutcome:
        now_s = self._clock.now_s()
        with self._lock:
            standing = self._standings.get((host, attempt), Standing())
            standing = after_failure(standing, attempt, outcome.text, now_s, self._patience)
            self._standings[host, attempt] = standing
        return PowerOutcome(outcome.answer, outcome.text, standing.not_before_s)
