"""A power control that does not insist: it remembers what failed and holds orders back for a while."""

from __future__ import annotations

from threading import Lock

from one_preempt.adapters.power_control.breaker import after_failure, after_order, is_overdue, withdrawn
from one_preempt.configuration.power_control_settings import PatienceSettings
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus
from one_preempt.core.model.power_standing import PowerAttempt, PowerStanding, PowerStandings
from one_preempt.core.model.written_time import utc_text
from one_preempt.ports import Clock, PowerControl

_NEEDED = {
    PowerAttempt.ON: (PowerAttempt.LOGIN, PowerAttempt.ON, PowerAttempt.BOOT),
    PowerAttempt.OFF: (PowerAttempt.LOGIN, PowerAttempt.OFF),
    PowerAttempt.LOGIN: (PowerAttempt.LOGIN,),
}
_SHOWN = {PowerAttempt.ON: PowerStatus.ON, PowerAttempt.OFF: PowerStatus.OFF}
_COUNTED = (PowerAnswer.REFUSED, PowerAnswer.UNREACHABLE, PowerAnswer.NO_ANSWER)


class GuardedPowerControl:
    """Implements `PowerControl` around another one. Nothing here sleeps: what must wait is answered HELD_BACK, with
    the instant when it makes sense again, and whoever plans asks again then.

    No pause is longer than the longest that is configured now, whatever the clock did since it began. An order that
    was taken and does not show in the readings within its time counts as failed. The one who sees hosts come up, or
    not, says so by `came_up` and `did_not_come_up`.
    """

    def __init__(self, control: PowerControl, clock: Clock, patience: PatienceSettings) -> None:
        self._control = control
        self._clock = clock
        self._patience = patience
        self._longest_s = patience.most_s
        self._lock = Lock()
        self.remember({})

    def switch_on(self, host: str) -> PowerOutcome:
        """Order the start, unless that failed too often of late."""
        return self._held_back(host, PowerAttempt.ON) or self._settled(
            host, PowerAttempt.ON, self._control.switch_on(host)
        )

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Order the stop, unless that failed too often of late."""
        return self._held_back(host, PowerAttempt.OFF) or self._settled(
            host, PowerAttempt.OFF, self._control.switch_off(host, hard)
        )

    def status(self, host: str) -> PowerReading:
        """Read it, unless the controller did not let us in of late."""
        held_back = self._held_back(host, PowerAttempt.LOGIN)
        if held_back is not None:
            return PowerReading(PowerStatus.UNKNOWN, held_back)
        reading = self._control.status(host)
        if reading.outcome.answer is PowerAnswer.DENIED:
            return PowerReading(reading.status, self._failed(host, PowerAttempt.LOGIN, reading.outcome))
        if reading.outcome.accepted:
            self._let_in(host)
        for attempt in _SHOWN:
            self._compare(host, attempt, reading.status)
        return reading

    def came_up(self, host: str) -> None:
        """OpenNebula monitors the host: all failures on the way are forgotten."""
        with self._lock:
            self._standings.pop((host, PowerAttempt.BOOT), None)
            self._standings.pop((host, PowerAttempt.ON), None)

    def did_not_come_up(self, host: str) -> PowerOutcome:
        """The host has power and OpenNebula still does not monitor it; the answer tells when to try again."""
        why = f"{host} was switched on and did not come up"
        return self._failed(host, PowerAttempt.BOOT, PowerOutcome(PowerAnswer.NO_ANSWER, why))

    def standings(self) -> PowerStandings:
        """What is remembered, for whoever keeps it across a restart."""
        with self._lock:
            return {key: standing for key, standing in self._standings.items() if not standing.is_clear}

    def remember(self, standings: PowerStandings) -> None:
        """Take over what was remembered, in place of all that is."""
        with self._lock:
            self._standings = dict(standings)

    def forgive(self, host: str) -> None:
        """Somebody has mended it: whatever failed is tried again at once."""
        with self._lock:
            for attempt in PowerAttempt:
                self._standings.pop((host, attempt), None)

    def _of(self, host: str, attempt: PowerAttempt) -> PowerStanding:
        """To be called with the lock."""
        return self._standings.get((host, attempt)) or PowerStanding(host, attempt)

    def _held_back(self, host: str, attempt: PowerAttempt) -> PowerOutcome | None:
        now_s = self._clock.now_s()
        with self._lock:
            standings = [self._of(host, needed) for needed in _NEEDED[attempt]]
        pausing = [one for one in standings if now_s < one.not_before_s <= now_s + self._longest_s]
        if not pausing:
            return None
        worst = max(pausing, key=lambda standing: standing.not_before_s)
        text = (
            f"{host} is left alone until {utc_text(worst.not_before_s)}, "
            f"after {worst.failures} failure{'s' if worst.failures > 1 else ''} in a row; the last one: {worst.why}"
        )
        return PowerOutcome(PowerAnswer.HELD_BACK, text, worst.not_before_s)

    def _settled(self, host: str, attempt: PowerAttempt, outcome: PowerOutcome) -> PowerOutcome:
        if outcome.answer is PowerAnswer.DENIED:
            return self._failed(host, PowerAttempt.LOGIN, outcome)
        if outcome.answer is PowerAnswer.REFUSED and self._control.status(host).status is _SHOWN[attempt]:
            # Some controllers refuse what is so already.
            outcome = PowerOutcome(PowerAnswer.ACCEPTED, f"{host} is {_SHOWN[attempt].value} already")
        if outcome.answer in _COUNTED:
            return self._failed(host, attempt, outcome)
        if outcome.accepted:
            self._await(host, attempt)
        return outcome

    def _await(self, host: str, attempt: PowerAttempt) -> None:
        """From now on the readings are expected to show `attempt`, and not the contrary any more."""
        now_s = self._clock.now_s()
        contrary = host, PowerAttempt.OFF if attempt is PowerAttempt.ON else PowerAttempt.ON
        self._let_in(host)
        with self._lock:
            self._standings[host, attempt] = after_order(self._of(host, attempt), now_s)
            if contrary in self._standings:
                self._standings[contrary] = withdrawn(self._standings[contrary])

    def _let_in(self, host: str) -> None:
        with self._lock:
            self._standings.pop((host, PowerAttempt.LOGIN), None)

    def _compare(self, host: str, attempt: PowerAttempt, status: PowerStatus) -> None:
        """Count an order that does not show in time as failed, and forget the failures of one that does."""
        now_s = self._clock.now_s()
        with self._lock:
            standing = self._standings.get((host, attempt))
            if standing is None:
                return
            effect_s = self._patience.on_effect_s if attempt is PowerAttempt.ON else self._patience.off_effect_s
            if status is _SHOWN[attempt]:
                del self._standings[host, attempt]
            elif is_overdue(standing, effect_s, now_s):
                why = f"the order was taken, and after {effect_s} s the power is still {status.value}"
                self._standings[host, attempt] = after_failure(standing, why, now_s, self._patience)

    def _failed(self, host: str, attempt: PowerAttempt, outcome: PowerOutcome) -> PowerOutcome:
        now_s = self._clock.now_s()
        with self._lock:
            standing = after_failure(self._of(host, attempt), outcome.text, now_s, self._patience)
            self._standings[host, attempt] = standing
        return PowerOutcome(outcome.answer, outcome.text, standing.not_before_s)
