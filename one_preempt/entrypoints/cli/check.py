"""`check`: is everything set up as the daemon needs it? One line a question, with the mend where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.daemon_socket.client import ask_daemon
from one_preempt.adapters.lease_store.named_database import DatabaseNotMade
from one_preempt.adapters.opennebula.oned_errors import OnedError
from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader
from one_preempt.adapters.opennebula.transport import OnedTransport
from one_preempt.composition import open_made_store, open_transport
from one_preempt.configuration.chosen_policies import policies
from one_preempt.configuration.settings import Settings, configuration_path, load_settings
from one_preempt.entrypoints.cli.check_images import judge_image_programs, judge_images, judge_images_on_hosts
from one_preempt.entrypoints.cli.check_places import (
    RUN_AS,
    judge_events,
    judge_files,
    judge_metrics,
    running_daemon,
    why_no_database_can_be_made,
)
from one_preempt.entrypoints.cli.check_power import (
    judge_power,
    judge_power_of_hosts,
    judge_power_passwords,
    judge_power_secrets,
    judge_reachable_power,
)
from one_preempt.entrypoints.cli.driver_set_up import judge_driver
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json, write_renderables
from one_preempt.entrypoints.cli.set_up import (
    Finding,
    Grade,
    judge_clocks,
    judge_daemon,
    judge_datastores,
    judge_dates,
    judge_hosts,
    judge_leadership,
    judge_mode,
    judge_names_in_rules,
    judge_other_schedulers,
    judge_rights,
    judge_secrecy,
    judge_shares,
    judge_version,
    judge_zone,
)
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable

STYLES = {Grade.OK: "green", Grade.WARN: "yellow", Grade.FAIL: "bold red"}
OWN_USER = -1
ENDED = "Z"  # as the kernel has it in /proc
LONGEST_FINDING = 1000


@click.command("check")
@config_option
@json_option
def check_command(config_path: Path | None, as_json: bool) -> int:
    """Check the set-up: configuration, power, images, files, daemon, events, metrics, endpoint, rights and others.

    Nothing is changed. The exit code is 1 if something cannot work.
    """
    return told(list(all_findings(config_path)), as_json=as_json)


def all_findings(config_path: Path | None) -> Iterator[Finding]:
    """Every question in turn; those that an earlier failure leaves without an answer are not asked."""
    try:
        settings = load_settings(config_path)
        policies(settings)
    except OnePreemptError as error:
        yield Finding("configuration", Grade.FAIL, str(error))
        return
    source = configuration_path(config_path)
    yield Finding(
        "configuration", Grade.OK, str(source) if source else "there is no file: the values as shipped are used"
    )
    yield judge_mode(settings)
    yield judge_power(settings)
    yield from judge_power_secrets(settings)
    yield judge_images(settings)
    yield from judge_image_programs(settings)
    yield judge_database(settings)
    yield from judge_files(settings)
    answer = ask_daemon("status", {}, settings.socket.path)
    yield judge_daemon(settings.socket.path, answer, running_daemon(settings))
    yield from judge_events(settings.events)
    yield from judge_metrics(settings.metrics, is_there=answer is not None)
    try:
        with closing(open_transport(settings)) as transport:
            yield from endpoint_findings(settings, transport)
    except OnePreemptError as error:
        yield Finding("endpoint", Grade.FAIL, str(error))


def judge_database(settings: Settings) -> Finding:
    """Can the leases be kept?"""
    try:
        with closing(open_made_store(settings)) as store:
            paused = store.load(SystemClock().now_s()).paused
    except DatabaseNotMade:
        if why := why_no_database_can_be_made(settings):
            mend = f"correct store.url or make its folder; else {RUN_AS}"
            return Finding("database", Grade.FAIL, f"there is no database yet, and it cannot be made: {why}", mend)
        mend = "it is made when the daemon starts, or now by: one-preempt db upgrade"
        return Finding("database", Grade.WARN, "there is none yet", mend)
    except OnePreemptError as error:
        return Finding("database", Grade.FAIL, str(error))
    if paused:
        said = "paused: nothing is preempted, no host is switched and no image brought anywhere"
        return Finding("database", Grade.WARN, said, "one-preempt resume")
    return Finding("database", Grade.OK, "up to date")


def endpoint_findings(settings: Settings, transport: OnedTransport) -> Iterator[Finding]:
    """What oned itself has to say. Raises `OnePreemptError` where it says nothing."""
    yield from judge_secrecy(transport.credentials_file)
    try:
        version = transport.document("one.system.version").decode(errors="replace")
        user = transport.document("one.user.info", OWN_USER)
        configuration = transport.document("one.system.config")
    except OnedError as error:
        yield Finding("credentials", Grade.FAIL, f"{transport.endpoint}: {error}", "check ONE_AUTH and its user")
        return
    yield Finding("endpoint", Grade.OK, f"{transport.endpoint} answers")
    yield judge_version(version)
    yield from judge_zone(configuration)
    yield from judge_clocks(transport.clock_ahead_s())
    rights = judge_rights(user)
    yield rights
    yield from judge_other_schedulers(version, configuration, running_programs())
    if rights.grade is Grade.OK:
        snapshot = OpenNebulaPoolReader(transport, SystemClock()).read()
        yield from judge_dates(snapshot, transport.clock_ahead_s(), SystemClock().now_s())
        yield judge_leadership(snapshot.raft_state)
        yield judge_hosts(snapshot)
        yield from judge_datastores(settings, snapshot)
        yield from judge_driver(configuration, transport.document("one.clusterpool.info"), len(snapshot.hosts))
        yield from judge_names_in_rules(settings, snapshot)
        yield from judge_shares(settings, snapshot)
        yield from judge_power_passwords(configuration, snapshot.hosts.values())
        yield from judge_power_of_hosts(settings, snapshot.hosts)
        yield from judge_reachable_power(settings, snapshot.hosts, transport)
        yield from judge_images_on_hosts(settings, transport, version)
        for problem in snapshot.problems:
            yield Finding("pools", Grade.WARN, problem, "the object is left out of every decision")


def running_programs() -> set[str]:
    """Names of what runs on this machine, without what has ended and waits only for its parent to take note."""
    processes = map(_text_of, Path("/proc").glob("[0-9]*/stat"))
    # 12 (name) S ...; a name may have parentheses of its own.
    named = ((text[text.find("(") + 1 : text.rfind(")")], text[text.rfind(")") + 1 :].split()) for text in processes)
    return {name for name, rest in named if name and rest[:1] != [ENDED]}


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")  # any user names a process as it likes
    except OSError:  # it ended meanwhile
        return ""


def told(findings: list[Finding], *, as_json: bool) -> int:
    """Print what was found; the exit code, 1 where something cannot work."""
    if as_json:
        write_json(
            [
                {"subject": found.subject, "grade": found.grade.value, "text": found.text, "mend": found.mend}
                for found in findings
            ]
        )
    else:
        show(findings)
    return int(any(found.grade is Grade.FAIL for found in findings))


def show(findings: list[Finding]) -> None:
    """The findings for people, each mend under what it mends."""
    from rich.text import Text

    from one_preempt.explanation.tables import titled_table

    table = titled_table("Set-up", "", "about", "what was found")
    for found in findings:
        told = Text(printable(found.text, LONGEST_FINDING))
        table.add_row(Text(found.grade.value, style=STYLES[found.grade]), Text(found.subject), told)
        if found.mend:
            table.add_row("", "", Text(f"-> {printable(found.mend, LONGEST_FINDING)}", style="dim"))
    write_renderables([table])
