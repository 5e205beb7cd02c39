"""Baseboard controllers by IPMI 2.0, through the program ipmitool.

The password goes along in the child's environment, which only the same user can read, and never on a command
line. ipmitool is asked to be verbose, because it says only then why a session was not established.
"""

from __future__ import annotations

import re

from one_preempt.adapters.power_control.controllers import Controller, Controllers
from one_preempt.adapters.power_control.failure import PowerFailure, outcome_of, reading_of
from one_preempt.adapters.power_control.programs import run
from one_preempt.adapters.power_control.secret import Secret, obtain
from one_preempt.bounded_io.child_process import Finished, NotStarted, TookTooLong
from one_preempt.configuration.power_control_settings import IpmitoolSettings
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus

LONGEST_PASSWORD_BYTES = 20  # IPMI 2.0, section 22.30
_LONGEST_CAUSE = 200
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,15}")
_STATUS = re.compile(r"^Chassis Power is (on|off)$", re.MULTILINE)
_TAKEN = re.compile(r"^Chassis Power Control: ", re.MULTILINE)
_REFUSED = re.compile(r"^(?:Set|Get) Chassis Power (?:Control|Status)\b.* failed: (.+)$", re.MULTILINE)
_LOGIN_FAILED = re.compile(r"RAKP [24] (?:HMAC is invalid|message indicates an error : (?:unauthorized|inactive))")
_SUITE_UNKNOWN = re.compile(r"Error in open session response message|RAKP 2 message indicates an error : .*cipher")
_NOBODY_THERE = re.compile(r"Get Auth Capabilities error|Could not open socket|Address lookup for .* failed")
_NO_SESSION = "Unable to establish IPMI v2 / RMCP+ session"
_NO_RIGHT = "Insufficient privilege level"
# Completion codes C3, CE and CF: the controller cannot say what became of it, or was sent it twice.
_PERHAPS_DONE = ("Timeout", "Command response could not be provided", "Cannot execute duplicated request")


class _SuiteFailed(Exception):
    """No session came about, and another cipher suite may do better."""


class IpmitoolPowerControl:
    """Implements `PowerControl`. A soft switching off is ACPI's: the host's operating system must heed it."""

    def __init__(self, controllers: Controllers, settings: IpmitoolSettings) -> None:
        self._controllers = controllers
        self._settings = settings
        self._suites: dict[str, int] = {}

    def switch_on(self, host: str) -> PowerOutcome:
        """Order the power on."""
        return outcome_of(lambda: self._order(host, "on"))

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Order the shutdown by ACPI, or take the power away."""
        return outcome_of(lambda: self._order(host, "off" if hard else "soft"))

    def status(self, host: str) -> PowerReading:
        """Ask the controller."""
        return reading_of(lambda: self._read(host))

    def _order(self, host: str, order: str) -> str:
        finished = self._ask(host, order)
        if _TAKEN.search(finished.output) is None:
            raise _no_answer(host)
        return f"the baseboard controller of {host} took the order '{order}'"

    def _read(self, host: str) -> tuple[PowerStatus, str]:
        match = _STATUS.search(self._ask(host, "status").output)
        if match is None:
            raise _no_answer(host)
        return PowerStatus(match[1]), f"the baseboard controller of {host} says: {match[1]}"

    def _ask(self, host: str, question: str) -> Finished:
        """What ipmitool said with the first cipher suite that gave a session."""
        controller = self._controllers.of(host)
        _check(controller)
        known = self._suites.get(host)
        suites = sorted(self._settings.cipher_suites, key=lambda suite: suite != known)
        for suite in suites:
            try:
                finished = self._ask_with(controller, suite, question)
            except _SuiteFailed:
                continue
            self._suites[host] = suite
            return finished
        tried = ", ".join(map(str, suites))
        raise PowerFailure(
            PowerAnswer.UNREACHABLE,
            f"{host}: its baseboard controller at {controller.address} opens no session with cipher suite {tried}: "
            "is IPMI over LAN enabled there, and is another suite to be named in ipmitool.cipher_suites?",
        )

    def _ask_with(self, controller: Controller, suite: int, question: str) -> Finished:
        settings = self._settings
        arguments = [
            settings.program, "-I", "lanplus", "-H", controller.address, "-p", str(controller.port or settings.port),
            "-U", controller.user, "-E", "-C", str(suite), "-L", settings.privilege,
            "-N", str(settings.message_timeout_s), "-R", str(settings.message_retries),
            "-v", "chassis", "power", question,
        ]  # fmt: skip
        password = obtain(controller.password)
        environment = {"IPMI_PASSWORD": password.reveal()}
        try:
            finished = run(arguments, settings.timeout_s, environment)
        except NotStarted as error:
            raise PowerFailure(
                PowerAnswer.MISCONFIGURED,
                f"cannot run {settings.program}: {error}; install ipmitool, or name it in ipmitool.program",
            ) from None
        except TookTooLong:
            raise PowerFailure(
                PowerAnswer.NO_ANSWER,
                f"{controller.host}: its baseboard controller at {controller.address} "
                f"did not answer within {settings.timeout_s:g} s",
            ) from None
        if finished.code != 0:
            raise _failure(controller, password, finished)
        return finished


def _check(controller: Controller) -> None:
    """Raise `PowerFailure` where ipmitool would take a value for something else, or cut it."""
    if _ADDRESS.fullmatch(controller.address) is None or _USER.fullmatch(controller.user) is None:
        raise PowerFailure(
            PowerAnswer.MISCONFIGURED,
            f"{controller.host}: the address or the user of its baseboard controller cannot be used with IPMI: "
            "a user has at most 16 characters",
        )
    if len(obtain(controller.password).reveal().encode()) > LONGEST_PASSWORD_BYTES:
        raise PowerFailure(
            PowerAnswer.MISCONFIGURED,
            f"{controller.host}: the password of its baseboard controller is longer than "
            f"{LONGEST_PASSWORD_BYTES} bytes, the most that IPMI knows",
        )


def _failure(controller: Controller, password: Secret, finished: Finished) -> Exception:
    """What ipmitool's words mean. Without a session nothing was done."""
    words = f"{finished.errors}\n{finished.output}"
    host, place = controller.host, f"{controller.host}: its baseboard controller at {controller.address}"
    if _LOGIN_FAILED.search(words):
        return PowerFailure(
            PowerAnswer.DENIED, f"{place} does not accept user '{controller.user}' with this password: correct them"
        )
    if _NOBODY_THERE.search(words):
        return PowerFailure(
            PowerAnswer.UNREACHABLE, f"{place} does not answer: look at the address, the network and the controller"
        )
    if _NO_SESSION in words or _SUITE_UNKNOWN.search(words):
        return _SuiteFailed()
    if refused := _REFUSED.search(words):
        reason = plain_words(password.hidden_in(refused[1]), _LONGEST_CAUSE)
        if reason in _PERHAPS_DONE:
            return PowerFailure(PowerAnswer.NO_ANSWER, f"{place} does not say whether it did it: {reason}")
        mend = f": give user '{controller.user}' the privilege OPERATOR there" if _NO_RIGHT in reason else ""
        return PowerFailure(PowerAnswer.REFUSED, f"{place} refuses: {reason}{mend}")
    return _no_answer(host)


def _no_answer(host: str) -> PowerFailure:
    return PowerFailure(
        PowerAnswer.NO_ANSWER, f"{host}: its baseboard controller opened a session and then gave no usable answer"
    )
