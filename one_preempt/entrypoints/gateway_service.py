"""The gateway as a process: it answers at its socket, and looks after requests and zones in between.

A round that fails does not end it: the cause is logged once, and the next round begins afresh. SIGTERM and SIGINT end
it between two rounds; SIGHUP is answered by a line.
"""

from __future__ import annotations

import logging
import os
import pwd
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from one_preempt.adapters.clock import SystemClock
from one_preempt.configuration.doubts import doubts
from one_preempt.configuration.settings import Settings
from one_preempt.entrypoints.alarm import Alarm
from one_preempt.entrypoints.daemon_log import log_to
from one_preempt.entrypoints.kept_socket import KeptSocket
from one_preempt.entrypoints.service_manager import notify
from one_preempt.errors import OnePreemptError
from one_preempt.gateway.desk import Caller, GatewayDesk
from one_preempt.gateway.messages import MessageError, parse_message
from one_preempt.gateway.upkeep import Upkeep
from one_preempt.gateway_composition import open_gateway, open_gateway_socket
from one_preempt.ports import AnotherDaemonWrites

LOGGER = logging.getLogger("one_preempt")
ROUND_EVERY_S = 30.0
SHORTEST_PAUSE_S = 5.0
"""Anybody can wake it: it does not look at zones all the time for that."""
SIGN_EVERY_S = 30.0
ROOT = 0


def run_gateway(settings: Settings) -> int:
    """Answer until SIGTERM or SIGINT; the exit code. Raises `OnePreemptError` where it cannot begin."""
    if not settings.gateway.zones:
        raise OnePreemptError("there is no gateway: name its zones in gateway.zones of the configuration")
    log_to(settings.log)
    with ExitStack() as stack:
        alarm = stack.enter_context(Alarm())
        stack.enter_context(alarm.heeding_signals())
        desk, upkeep = stack.enter_context(
            open_gateway(settings, SystemClock(), LOGGER.info, alarm.ring, _SignsOfLife().give)
        )
        kept = stack.enter_context(
            KeptSocket(lambda: open_gateway_socket(settings, answers_of(desk)), "the gateway's socket")
        )
        kept.open()
        notify("READY=1")
        LOGGER.info("gateway between %s", ", ".join(zone.name for zone in settings.gateway.zones))
        for doubt in doubts(settings):
            LOGGER.warning("configuration: %s", doubt)
        _rounds(upkeep, kept, alarm)
        notify("STOPPING=1")
    LOGGER.info("stopped")
    return 0


class _SignsOfLife:
    """Tells systemd that a round goes on; now and then, and not for each of many answers that come at once."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def give(self) -> None:
        """A zone has answered, or has not in time."""
        if time.monotonic() - self._last_s >= SIGN_EVERY_S:
            self._last_s = time.monotonic()
            notify("WATCHDOG=1")


def answers_of(desk: GatewayDesk) -> Callable[[bytes, int], Mapping[str, object]]:
    """What the socket does with a line of a user."""
    trusted = frozenset({os.geteuid(), ROOT})

    def answer(line: bytes, uid: int) -> Mapping[str, object]:
        try:
            message = parse_message(line)
        except MessageError as error:
            return {"ok": False, "error": str(error)}
        try:
            return desk.answer(message, Caller(uid, _name_of(uid), uid in trusted))
        except Exception:
            LOGGER.exception("a message could not be answered")
            return {"ok": False, "error": "the gateway failed at this: a defect, see its log"}

    return answer


def _rounds(upkeep: Upkeep, kept: KeptSocket, alarm: Alarm) -> None:
    trouble = ""
    while not alarm.stopped:
        notify("WATCHDOG=1")
        if alarm.take_hang_up():
            LOGGER.warning("SIGHUP is ignored: restart the gateway to have the configuration read")
        trouble = _round(upkeep, kept, trouble)
        alarm.sleep(ROUND_EVERY_S, SHORTEST_PAUSE_S)


def _round(upkeep: Upkeep, kept: KeptSocket, trouble: str) -> str:
    """One round; what stands against it, which is logged unless that was the `trouble` before."""
    try:
        upkeep.round()
    except OnePreemptError as error:
        if str(error) != trouble:
            LOGGER.error("%s", error)
        if isinstance(error, AnotherDaemonWrites):
            # Users must not ask the one that writes nothing down.
            kept.leave()
        else:
            kept.keep()
        return str(error)
    except Exception:
        LOGGER.exception("a round failed; the next one begins afresh")
    kept.keep()
    return ""


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
