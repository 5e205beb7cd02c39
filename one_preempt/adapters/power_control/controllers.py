"""Where each host's controller is and who logs in there: from the configuration, or from attributes of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from one_preempt.adapters.power_control.failure import PowerFailure
from one_preempt.adapters.power_control.host_names import checked_host, with_host
from one_preempt.adapters.power_control.secret import Secret, SecretError, SecretSource
from one_preempt.configuration.power_control_settings import HostSettings
from one_preempt.core.model.power import PowerAnswer

# The template attributes of a host that are looked at, decrypted by oned where they are encrypted.
ADDRESS_ATTRIBUTE = "POWER_ADDRESS"
USER_ATTRIBUTE = "POWER_USER"
PASSWORD_ATTRIBUTE = "POWER_PASSWORD"
HARDWARE_ADDRESS_ATTRIBUTE = "POWER_HARDWARE_ADDRESS"

AttributesOf = Callable[[str], Mapping[str, str]]
"""What the template of a host says about power. Raises `CloudUnavailable`, for what is not known is not nothing."""


def no_attributes(_host: str) -> Mapping[str, str]:
    """For hosts whose attributes say nothing about power."""
    return {}


class Controller(Struct, frozen=True):
    """A host's baseboard controller. `address` is a name, an IP address, or for Redfish a URL."""

    host: str
    address: str
    user: str
    password: SecretSource
    port: int | None = None
    system: str | None = None


class UsualLogin(Struct, frozen=True):
    """What holds for hosts of which nothing else is said; {host} in `address` is replaced."""

    address: str | None
    user: str | None
    password_file: str | None
    system: str | None = None


class Controllers:
    """Finds the controller of a host. What the configuration says of this host wins over its attributes, and
    those over the usual.

    An address out of the attributes is used only with a user and a password out of the attributes: whoever may
    write a host's template shall not get the configured password sent to a place of his choice.
    """

    def __init__(
        self, usual: UsualLogin, hosts: Mapping[str, HostSettings], attributes_of: AttributesOf = no_attributes
    ) -> None:
        self._usual = usual
        self._hosts = dict(hosts)
        self._attributes_of = attributes_of

    def of(self, host: str) -> Controller:
        """The controller of `host`. Raises `PowerFailure` where none is known, `SecretError` or `CloudUnavailable`."""
        own = self._hosts.get(checked_host(host), HostSettings())
        attributes = self._attributes_of(host) if own.address is None else {}
        if ADDRESS_ATTRIBUTE in attributes:
            return _from_attributes(host, own, attributes)
        usual = self._usual
        address = own.address or usual.address
        user = own.user or usual.user
        password_file = own.password_file or usual.password_file
        missing = [
            key
            for key, value in (("address", address), ("user", user), ("password_file", password_file))
            if value is None
        ]
        if address is None or user is None or password_file is None:
            raise PowerFailure(
                PowerAnswer.MISCONFIGURED,
                f"{host}: the configuration names no {' and no '.join(missing)} of its baseboard controller",
            )
        return Controller(
            host, with_host(address, host), user, Path(password_file), own.port, own.system or usual.system
        )


def _from_attributes(host: str, own: HostSettings, attributes: Mapping[str, str]) -> Controller:
    for name in (USER_ATTRIBUTE, PASSWORD_ATTRIBUTE):
        if not attributes.get(name):
            raise PowerFailure(
                PowerAnswer.MISCONFIGURED,
                f"{host}: its template has {ADDRESS_ATTRIBUTE} but no {name}: write both, with {USER_ATTRIBUTE}",
            )
    try:
        password = Secret(attributes[PASSWORD_ATTRIBUTE])
    except SecretError as error:
        why = f"{host}: {PASSWORD_ATTRIBUTE} in its template cannot be used: {error}"
        raise PowerFailure(PowerAnswer.MISCONFIGURED, why) from None
    return Controller(host, attributes[ADDRESS_ATTRIBUTE], attributes[USER_ATTRIBUTE], password, own.port, own.system)
