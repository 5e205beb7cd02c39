"""Hosts without a controller: a magic packet wakes them, ssh shuts them down, a TCP connection tells whether they run.

Nobody confirms a magic packet, and a host that does not answer may be off, hung or cut off: OFF means here that
it was silent, and only what a controller says is certain.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from one_preempt.adapters.power_control.controllers import HARDWARE_ADDRESS_ATTRIBUTE, AttributesOf, no_attributes
from one_preempt.adapters.power_control.failure import PowerFailure, outcome_of, reading_of
from one_preempt.adapters.power_control.host_names import checked_host, with_host
from one_preempt.adapters.power_control.secret import Secret, obtain
from one_preempt.adapters.power_control.ssh import run_on_host
from one_preempt.adapters.power_control.wanted import demand_wanted
from one_preempt.configuration.power_control_settings import HostSettings, WakeOnLanSettings
from one_preempt.core.model.power import PowerAnswer, PowerOutcome, PowerReading, PowerStatus

_HARDWARE_ADDRESS = re.compile(r"[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}")
_SILENCE = (errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT)


def magic_packet(hardware_address: str, secure_on: Secret | None = None) -> bytes:
    """Six times FF, sixteen times the address, and the six bytes of the SecureOn password where there is one."""
    password = b"" if secure_on is None else _six_bytes(secure_on.reveal(), "the SecureOn password")
    return b"\xff" * 6 + _six_bytes(hardware_address, "the hardware address") * 16 + password


def _six_bytes(text: str, what: str) -> bytes:
    if _HARDWARE_ADDRESS.fullmatch(text) is None:
        raise PowerFailure(PowerAnswer.MISCONFIGURED, f"{what} must be six bytes such as 01:23:45:67:89:ab")
    return bytes.fromhex(text.replace(":", "").replace("-", ""))


class WakeOnLanPowerControl:
    """Implements `PowerControl` for hosts whose network card listens while they sleep."""

    def __init__(
        self,
        settings: WakeOnLanSettings,
        hosts: Mapping[str, HostSettings],
        attributes_of: AttributesOf = no_attributes,
    ) -> None:
        self._settings = settings
        self._hosts = dict(hosts)
        self._attributes_of = attributes_of

    def switch_on(self, host: str) -> PowerOutcome:
        """Send magic packets."""
        return outcome_of(lambda: self._wake(host))

    def switch_off(self, host: str, hard: bool) -> PowerOutcome:
        """Shut down by ssh; `hard` asks the operating system not to wait for anything, and needs it alive."""
        vector = self._settings.hard_shutdown if hard else self._settings.shutdown
        return outcome_of(lambda: run_on_host(self._settings, host, self._address(host), vector))

    def status(self, host: str) -> PowerReading:
        """ON where something answers at the ssh port, be it a refusal; OFF where it is silent again and again."""
        return reading_of(lambda: self._probe(host))

    def _wake(self, host: str) -> str:
        own = self._own(host)
        hardware_address = own.hardware_address or self._attributes_of(host).get(HARDWARE_ADDRESS_ATTRIBUTE)
        if hardware_address is None:
            raise PowerFailure(
                PowerAnswer.MISCONFIGURED,
                f"{host}: its hardware address is not known: write hosts.{host}.hardware_address, "
                f"or {HARDWARE_ADDRESS_ATTRIBUTE} into its template",
            )
        file = own.secure_on_file or self._settings.secure_on_file
        packet = magic_packet(hardware_address, None if file is None else obtain(Path(file)))
        place = (self._settings.broadcast_address, self._settings.port)
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                demand_wanted()
                for _ in range(self._settings.packets):
                    sender.sendto(packet, place)
        except OSError as error:
            raise PowerFailure(
                PowerAnswer.UNREACHABLE,
                f"{host}: no magic packet could be sent to {place[0]}: {error.strerror}; "
                "look at wake_on_lan.broadcast_address and the network of this machine",
            ) from None
        return f"magic packets for {host} ({hardware_address}) were sent to {place[0]} port {place[1]}"

    def _probe(self, host: str) -> tuple[PowerStatus, str]:
        place = (self._address(host), self._settings.ssh_port)
        for _ in range(self._settings.silent_probes):
            if _answers(host, place, self._settings.connect_timeout_s):
                return PowerStatus.ON, f"{host} answers at port {place[1]}"
        return PowerStatus.OFF, f"{host} was silent at port {place[1]}, {self._settings.silent_probes} times in a row"

    def _own(self, host: str) -> HostSettings:
        return self._hosts.get(checked_host(host), HostSettings())

    def _address(self, host: str) -> str:
        return with_host(self._own(host).address or self._settings.host_address, host)


def _answers(host: str, place: tuple[str, int], timeout_s: float) -> bool:
    """Whether something is there. Raises `PowerFailure` where our own side keeps us from knowing."""
    try:
        socket.create_connection(place, timeout_s).close()
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False
    except (socket.gaierror, UnicodeError):  # no name of a machine has such parts
        raise PowerFailure(
            PowerAnswer.MISCONFIGURED, f"{host}: the name '{place[0]}' has no known address: look at the name service"
        ) from None
    except OSError as error:
        if error.errno in _SILENCE:
            return False
        raise PowerFailure(
            PowerAnswer.UNREACHABLE, f"{host}: no connection can be tried from here: {error.strerror}"
        ) from None
    return True
