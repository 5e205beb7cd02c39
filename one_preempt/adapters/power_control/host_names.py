"""Names of hosts, fit to be put into addresses and argument vectors."""

from __future__ import annotations

import re

from one_preempt.adapters.power_control.failure import PowerFailure
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.power import PowerAnswer

HOST_PLACEHOLDER = "{host}"
_LONGEST_SHOWN = 60
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


def is_host_name(name: str) -> bool:
    """Whether `name` is a host name or IPv4 address: no option, no path, nothing that any program takes apart."""
    return _HOST_NAME.fullmatch(name) is not None


def checked_host(name: str) -> str:
    """`name` where it can be used. Raises `PowerFailure`."""
    if not is_host_name(name):
        raise PowerFailure(
            PowerAnswer.MISCONFIGURED,
            f"the host name '{plain_words(name, _LONGEST_SHOWN)}' cannot be used for power control: "
            "only letters, digits, '.', '_' and '-' are, and no '-' or '.' at its ends",
        )
    return name


def with_host(template: str, host: str) -> str:
    """`template` with each {host} replaced by the checked name."""
    return template.replace(HOST_PLACEHOLDER, checked_host(host))
