"""One program run on a host by ssh, and what that means for its power."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from one_preempt.adapters.power_control.failure import PowerFailure
from one_preempt.adapters.power_control.programs import run
from one_preempt.bounded_io.child_process import Finished, NotStarted, TookTooLong
from one_preempt.bounded_io.ssh import SSH_FAILED, SshAccess, SshTrouble, ssh_arguments, ssh_trouble
from one_preempt.configuration.power_control_settings import WakeOnLanSettings
from one_preempt.core.model.plain_words import plain_words
from one_preempt.core.model.power import PowerAnswer

_LONGEST_CAUSE = 200
# ssh says so only of a session that it was logged in to: a host that goes down closes its connections.
_CLOSED_BY_HOST = re.compile(r"^Connection to \S+ closed by remote host", re.MULTILINE)
_ANSWERS = {
    SshTrouble.KEY_WRONG: PowerAnswer.MISCONFIGURED,
    SshTrouble.LOGIN_FAILED: PowerAnswer.DENIED,
    SshTrouble.NOBODY_THERE: PowerAnswer.UNREACHABLE,
    SshTrouble.UNDER_WAY: PowerAnswer.NO_ANSWER,
}


def arguments_for(settings: WakeOnLanSettings, address: str, vector: Sequence[str]) -> list[str]:
    """What to run here so that `vector` runs there; the shell of the other side gets it quoted."""
    access = SshAccess(
        settings.ssh_program,
        settings.ssh_port,
        settings.ssh_user,
        settings.ssh_identity_file,
        settings.ssh_known_hosts_file,
        settings.connect_timeout_s,
    )
    return ssh_arguments(access, address, vector)


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
    if finished.code != SSH_FAILED:
        said = plain_words(finished.errors or finished.output, _LONGEST_CAUSE)
        raise PowerFailure(
            PowerAnswer.REFUSED, f"{host}: '{shlex.join(vector)}' ended with exit code {finished.code}: {said}"
        )
    if _CLOSED_BY_HOST.search(finished.errors):
        return f"{host} closed the connection while it ran '{shlex.join(vector)}'"
    raise _failure(host, finished)


def _failure(host: str, finished: Finished) -> PowerFailure:
    words, trouble = finished.errors, ssh_trouble(finished.errors)
    said = plain_words(words.strip().splitlines()[-1] if words.strip() else "no reason given", _LONGEST_CAUSE)
    text = {
        SshTrouble.KEY_WRONG: f"{host}: {trouble.value} ({said})",
        SshTrouble.NOBODY_THERE: f"{host}: {said}",
    }.get(trouble, f"{host}: {trouble.value}: {said}")
    return PowerFailure(_ANSWERS[trouble], text)
