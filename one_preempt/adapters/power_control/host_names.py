"""Names of hosts, fit to be put into addresses and argument vectors."""

from __future__ import annotations

from one_preempt.adapters.power_control.failure import PowerFailure
from one_preempt.core.model.host_name import HOST_NAME_HINT, is_host_name
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.power import PowerAnswer

HOST_PLACEHOLDER = "{host}"
_LONGEST_SHOWN = 60


def checked_host(name: str) -> str:
    """`name` where it can be used. Raises `PowerFailure`."""
    if not is_host_name(name):
        raise PowerFailure(
            PowerAnswer.MISCONFIGURED,
            f"the host name '{plain_words(name, _LONGEST_SHOWN)}' cannot be used for power control; "
            f"a name may have {HOST_NAME_HINT}",
        )
    return name


def with_host(template: str, host: str) -> str:
    """`template` with each {host} replaced by the checked name."""
    return template.replace(HOST_PLACEHOLDER, checked_host(host))
