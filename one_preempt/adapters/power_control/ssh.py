"""One program run on a host by ssh: never with a question to a person, never to a host whose key is not known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from one_preempt.adapters.power_control.failure import PowerFailure
from one_preempt.adapters.power_control.programs import run
from one_preempt.child_process import Finished, NotStarted, TookTooLong
from one_preempt.configuration.power_control_settings import WakeOnLanSettings
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.power import PowerAnswer

_LONGEST_CAUSE = 200
_SSH_FAILED = 255
# ssh says so only of a session that it was logged in to: a host that goes down closes its connections.
_CLOSED_BY_HOST = re.compile(r"^Connection to \S+ closed by remote host", re.MULTILINE)
# The rest are ssh's words before it has logged in, so that nothing was done. What else it says, such as "Connection
# reset by", may come of a session as well: a host that goes down breaks it in any way.
_KEY_WRONG = re.compile(r"^Host key verification failed", re.MULTILINE)
_LOGIN_FAILED = re.compile(
    r"^(?:\S+@\S+: )?Permission denied \([a-z0-9,-]*\)|^Received disconnect from .*: Too many authentication failures",
    re.MULTILINE,
)
_NOBODY_THERE = re.compile(
    r"^(?:ssh: Could not resolve hostname|ssh: connect to (?:host|address) |kex_exchange_identification: "
    r"|Connection timed out during banner exchange)",
    re.MULTILINE,
)


def arguments_for(settings: WakeOnLanSettings, address: str, vector: Sequence[str]) -> list[str]:
    """What to run here so that `vector` runs there; the shell of the other side gets it quoted."""
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": str(max(1, round(settings.connect_timeout_s))),
        "ConnectionAttempts": "1",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
        "ServerAliveInterval": "5",
    }
    if settings.ssh_known_hosts_file is not None:
        options["UserKnownHostsFile"] = settings.ssh_known_hosts_file
    if settings.ssh_identity_file is not None:
        options |= {"IdentityFile": settings.ssh_identity_file, "IdentitiesOnly": "yes"}
    arguments = [settings.ssh_program, "-T", "-x", "-p", str(settings.ssh_port)]
    for name, value in options.items():
        arguments += ["-o", f"{name}={value}"]
    if settings.ssh_user is not None:
        arguments += ["-l", settings.ssh_user]
    return [*arguments, "--", address, shlex.join(vector)]


def run_on_host(settings: WakeOnLanSettings, host: str, address: str, vector: Sequence[str]) -> str:
    """Run `vector` there; what it did as a sentence. Raises `PowerFailure`."""
    try:
        finished = run(arguments_for(settings, address, vector), settings.timeout_s)
    except NotStarted as error:
        raise PowerFailure(
            PowerAnswer.MISCONFIGURED,
            f"cannot run {settings.ssh_program}: {error}; name ssh in wake_on_lan.ssh_program",
        ) from None
    except TookTooLong:
        raise PowerFailure(
            PowerAnswer.NO_ANSWER, f"{host}: ssh did not come back within {settings.timeout_s:g} s"
        ) from None
    if finished.code == 0:
        return f"{host} took '{shlex.join(vector)}' by ssh"
    if finished.may_be_killed:
        raise PowerFailure(PowerAnswer.NO_ANSWER, f"{host}: '{shlex.join(vector)}' was ended by a signal under way")
    if finished.code != _SSH_FAILED:
        said = plain_words(finished.errors or finished.output, _LONGEST_CAUSE)
        raise PowerFailure(
            PowerAnswer.REFUSED, f"{host}: '{shlex.join(vector)}' ended with exit code {finished.code}: {said}"
        )
    if _CLOSED_BY_HOST.search(finished.errors):
        return f"{host} closed the connection while it ran '{shlex.join(vector)}'"
    raise _failure(host, finished)


def _failure(host: str, finished: Finished) -> PowerFailure:
    words = finished.errors
    said = plain_words(words.strip().splitlines()[-1] if words.strip() else "no reason given", _LONGEST_CAUSE)
    if _KEY_WRONG.search(words):
        return PowerFailure(
            PowerAnswer.MISCONFIGURED,
            f"{host}: its ssh host key is not the known one: add the right key to known_hosts ({said})",
        )
    if _LOGIN_FAILED.search(words):
        return PowerFailure(PowerAnswer.DENIED, f"{host}: ssh does not let us in: {said}")
    if _NOBODY_THERE.search(words):
        return PowerFailure(PowerAnswer.UNREACHABLE, f"{host}: {said}")
    return PowerFailure(PowerAnswer.NO_ANSWER, f"{host}: ssh failed under way: {said}")
