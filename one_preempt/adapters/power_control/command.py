"""The administrator's own programs: argument vectors, run without a shell."""

from __future__ import annotations

from collections.abc import Sequence

from one_preempt.adapters.power_control.failure import PowerFailure, outcome_of, reading_of
from one_preempt.adapters.power_control.host_names import checked_host, with_host
from one_preempt.adapters.power_control.programs import run
from one_preempt.bounded_io.child_process import Finished, NotStarted, TookTooLong
from one_preempt.configuration.power_control_settings import CommandSettings
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus

_LONGEST_CAUSE = 200
_STATUSES = {"on": PowerStatus.ON, "off": PowerStatus.OFF}


class CommandPowerControl:
    """Implements `PowerControl`. {host} is replaced wherever it stands in an argument; exit code 0 is a yes."""

    def __init__(self, settings: CommandSettings) -> None:
        self._settings = settings

    def switch_on(self, host: str) -> PowerOutcome:
        """Run `on`."""
        return outcome_of(lambda: self._order(host, "on", self._settings.on))

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Run `hard_off` or `off`."""
        key, vector = ("hard_off", self._settings.hard_off) if hard else ("off", self._settings.off)
        return outcome_of(lambda: self._order(host, key, vector))

    def status(self, host: str) -> PowerReading:
        """Run `status`, which writes "on" or "off"."""
        return reading_of(lambda: self._read(host))

    def _order(self, host: str, key: str, vector: Sequence[str]) -> str:
        self._run(host, key, vector)
        return f"command.{key} took the order for {host}"

    def _read(self, host: str) -> tuple[PowerStatus, str]:
        said = self._run(host, "status", self._settings.status).output.strip().lower()
        status = _STATUSES.get(said)
        if status is None:
            shown = plain_words(said, _LONGEST_CAUSE)
            return PowerStatus.UNKNOWN, f"command.status wrote '{shown}' for {host}, and neither 'on' nor 'off'"
        return status, f"command.status says of {host}: {said}"

    def _run(self, host: str, key: str, vector: Sequence[str]) -> Finished:
        checked_host(host)
        if not vector:
            raise PowerFailure(PowerAnswer.MISCONFIGURED, f"command.{key} is not configured: {host} is left alone")
        try:
            finished = run([with_host(part, host) for part in vector], self._settings.timeout_s)
        except NotStarted as error:
            raise PowerFailure(PowerAnswer.MISCONFIGURED, f"cannot run {vector[0]} of command.{key}: {error}") from None
        except TookTooLong:
            raise PowerFailure(
                PowerAnswer.NO_ANSWER,
                f"command.{key} for {host} did not end within {self._settings.timeout_s:g} s and was killed",
            ) from None
        if finished.may_be_killed:
            raise PowerFailure(PowerAnswer.NO_ANSWER, f"command.{key} for {host} was ended by a signal under way")
        if finished.code != 0:
            said = plain_words(finished.errors or finished.output, _LONGEST_CAUSE)
            raise PowerFailure(
                PowerAnswer.REFUSED,
                f"command.{key} for {host} ended with exit code {finished.code}{': ' if said else ''}{said}",
            )
        return finished
