"""The commands by name, and what they share: loading on demand, exit codes, errors in one line."""

from __future__ import annotations

import errno
from typing import IO

import click

from one_preempt import __version__
from one_preempt.entrypoints import journal
from one_preempt.entrypoints.cli.commands_on_demand import CommandsOnDemand
from one_preempt.errors import OnePreemptError

LONGEST_MISTAKE = 1000

# Name -> (module of this package, one line for the list of commands).
COMMANDS = {
    "demo": ("demo", "Watch a preemption on an emulated cloud; needs no OpenNebula."),
    "plan": ("plan", "Show what the scheduler would do now, and why; it does nothing."),
    "record": ("record", "Save the state of the cloud to a file, without secrets."),
    "daemon": ("daemon", "Run the scheduler."),
    "pause": ("pause", "Stop preempting, switching hosts and copying images to them, at once."),
    "resume": ("pause", "Allow preempting, switching hosts and copying images to them again."),
    "check": ("check", "Look for what is wrong in the set-up, and say how to fix it."),
    "config": ("config", "Show, check or import the configuration."),
    "policies": ("policies", "List the policies that the configuration can choose."),
    "emulator": ("emulator", "Serve a simulated cloud as an OpenNebula endpoint."),
    "lease": ("lease", "Submit, list, show or cancel leases."),
    "shares": ("shares", "Show how much of their shares groups and users have used (fair share)."),
    "host": ("host", "List the hosts, switch them on and off, show their energy."),
    "image": ("image", "List the images that were copied to hosts, and those on their way."),
    "gateway": ("gateway", "Create VMs in the zone of a federation that a gateway chooses."),
    "hooks": ("hooks", "Let OpenNebula wake the daemon by hooks."),
    "db": ("db", "Create or upgrade the database of leases."),
    "simulate": ("simulate", "Replay a trace or a scenario; compare policies."),
    "experiment": ("experiment", "Reproduce a paper's table or figure."),
}


class CommandLine(CommandsOnDemand):
    """All commands. A command returns its exit code, None for 0."""

    def invoke(self, ctx: click.Context) -> None:
        """Run the command; a mistake of the user becomes one line on standard error and exit code 1."""
        try:
            code = super().invoke(ctx)
        except OnePreemptError as error:
            raise _mistake(str(error)) from error
        except OSError as error:
            if error.errno in (None, errno.EPIPE):  # click ends quietly where nobody reads any more
                raise
            raise _mistake(f"{error.filename or 'reading or writing failed'}: {error.strerror}") from error
        ctx.exit(code or 0)


class Mistake(click.ClickException):
    """One line on standard error; what a service could not start for is an error in the journal, too."""

    def show(self, file: IO[str] | None = None) -> None:
        """Print it as every command does, with the priority of an error where the journal reads it."""
        line = f"Error: {self.format_message()}"
        if file is None and journal.goes_to_the_journal():
            line = journal.with_priority(line, journal.ERROR)
        click.echo(line, file=file, err=True)


def _mistake(text: str) -> Mistake:
    """One line, whatever stood in the files or answers that it repeats: nothing of them controls the terminal."""
    from one_preempt.core.model.plain_words import plain_words

    return Mistake(plain_words(text, LONGEST_MISTAKE))


@click.group(
    cls=CommandLine,
    package="one_preempt.entrypoints.cli",
    listed=COMMANDS,
    called="{}_command",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="one-preempt %(version)s")
def cli() -> None:
    """A lease scheduler for OpenNebula: it makes room by stopping other virtual machines, at a known cost.

    The configuration is FILE of --config, else of the variable ONE_PREEMPT_CONF, else
    /etc/one/schedulers/one_preempt.conf, else the values as shipped. Exit codes: 0 done, 1 refused or
    something is wrong, 2 wrong usage.
    """
