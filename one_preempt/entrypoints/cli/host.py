"""`host`: the hosts as the scheduler counts them, what they take, and an administrator's orders to switch them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.daemon_socket.client import ask_daemon
from one_preempt.composition import open_made_store, open_reader
from one_preempt.configuration.settings import Settings, load_settings
from one_preempt.core.model.host import Host
from one_preempt.core.model.power_sequence import PowerGoal, PowerOrder, PowerPhase
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli.host_energy import host_energy
from one_preempt.entrypoints.cli.host_power import (
    PowerView,
    floor_refusal,
    fulfilled,
    power_view,
    reason_shown,
    refusal,
    was_on_since,
    what_to_do,
    why_to_nothing,
)
from one_preempt.entrypoints.cli.options import (
    config_option,
    json_option,
    settings_or_shipped,
    source_option,
    write_json,
    write_table,
)
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import JsonObject, printable

MIB_PER_GIB = 1024
LOOK_EVERY_S = 2.0
REACHED = {PowerGoal.ON: PowerPhase.AWAKE, PowerGoal.OFF: PowerPhase.ASLEEP}


@click.group("host")
def host_command() -> None:
    """Look at the hosts, and switch those that are handed over to the scheduler (power.hosts)."""


host_command.add_command(host_energy)


@host_command.command("list", short_help="List the hosts, and the state of their power.")
@click.argument("names", metavar="[HOST]...", nargs=-1)
@config_option
@source_option
@json_option
def host_list(names: tuple[str, ...], config_path: Path | None, source: Path | None, as_json: bool) -> None:
    """List the hosts, what is free on them by oned's accounting, and the state of their power.

    If hosts are named (by name or id), only these are listed, with long reasons in full.
    """
    settings = load_settings(config_path) if source is None else settings_or_shipped(config_path)
    snapshot = open_reader(settings, source).read()
    chosen = {_named(snapshot.hosts, name).id for name in names} if names else snapshot.hosts.keys()
    hosts = [snapshot.hosts[host_id] for host_id in sorted(chosen)]
    view = None if source is not None else power_view(settings, snapshot.hosts)
    if as_json:
        write_json([document(host) | {"power": view.document(host) if view else None} for host in hosts])
        return
    title = "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts"
    columns: tuple[str, ...] = ("id", "name", "cluster", "state", "CPU free/all", "GiB free/all", "VMs", "")
    if view is None or not view.concerns_anybody:
        write_table(title, columns, map(row, hosts))
    else:
        rows = ((*row(host), *view.words(host, whole=bool(names))) for host in hosts)
        write_table(title, (*columns, "power", "why"), rows)
        for one in view.left_unpowered(snapshot.hosts.values()) if not names else ():
            click.echo(f"{printable(one.host_name, 40)} (id {one.host_id}), {utc_text(one.since_s)}: {one.reason_text}")


@host_command.command("on", short_help="Have the daemon switch hosts on.")
@click.argument("names", metavar="HOST...", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Return when they are on.")
@config_option
def host_on(config_path: Path | None, names: tuple[str, ...], wait: bool) -> int:
    """Have the daemon switch sleeping hosts on; they are named by name or id.

    Each stays on for power.least_on_s; after that it may be sent to sleep again when nobody needs it. If one of them
    cannot be switched, no order is given, and the exit code is 1.
    """
    return _order(config_path, names, PowerGoal.ON, wait)


@host_command.command("off", short_help="Have the daemon send empty hosts to sleep.")
@click.argument("names", metavar="HOST...", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Return when they sleep.")
@config_option
def host_off(config_path: Path | None, names: tuple[str, ...], wait: bool) -> int:
    """Have the daemon send empty hosts to sleep, as safely as when it does so by itself; they are named by name or id.

    A request that needs one wakes it again. If one of them cannot be switched, no order is given, and the exit code
    is 1.
    """
    return _order(config_path, names, PowerGoal.OFF, wait)


def document(host: Host) -> JsonObject:
    """One host: CPU in hundredths of a processor, memory in MiB."""
    return {
        "id": host.id,
        "name": host.name,
        "cluster": host.cluster_name,
        "state": host.state.name,
        "accepts_vms": host.accepts_vms,
        "capacity_cpu_centi": host.capacity.cpu_centi,
        "free_cpu_centi": host.free.cpu_centi,
        "capacity_memory_mib": host.capacity.memory_mib,
        "free_memory_mib": host.free.memory_mib,
        "vm_ids": list(host.vm_ids),
    }


def row(host: Host) -> tuple[str, ...]:
    """One host for people: processors and GiB."""
    return (
        str(host.id),
        printable(host.name, 40),
        printable(host.cluster_name, 40),
        host.state.name,
        f"{host.free.cpu_centi / 100:g}/{host.capacity.cpu_centi / 100:g}",
        f"{host.free.memory_mib / MIB_PER_GIB:.1f}/{host.capacity.memory_mib / MIB_PER_GIB:.1f}",
        str(len(host.vm_ids)),
        "" if host.accepts_vms else "takes no VMs",
    )


def _order(config_path: Path | None, names: Sequence[str], goal: PowerGoal, wait: bool) -> int:
    settings = load_settings(config_path)
    hosts = open_reader(settings).read().hosts
    view, now_s = power_view(settings, hosts), SystemClock().now_s()
    named = {host.id: host for host in (_named(hosts, name) for name in names)}
    wanted = [host for host in named.values() if not fulfilled(view, host, goal)]
    refused = [(host, why) for host in wanted if (why := refusal(settings, view, host, goal, now_s))]
    if refused:
        told = (f"host {host.name} is not switched {goal.value}: {why}" for host, why in refused)
        raise OnePreemptError("; ".join(told))
    if goal is PowerGoal.OFF and (why := floor_refusal(view, hosts, wanted)):
        raise OnePreemptError(why)
    for host in named.values():
        if host not in wanted:
            click.echo(f"Host {printable(host.name)} is {goal.value} already, or on its way.")
            if view.is_left_alone(host):
                click.echo(f"It did not obey, and is told again later: {view.words(host)[1]}")
            if goal is PowerGoal.OFF and (advice := what_to_do(view.sequences[host.id], host)):
                click.echo(f"It is {view.sequences[host.id].phase}: {advice}.")
    if wanted:
        _give(settings, wanted, goal, now_s)
    return _wait(settings, view, list(named.values()), PowerOrder(-1, goal, now_s)) if wait else 0


def _named(hosts: Mapping[int, Host], name: str) -> Host:
    for host in hosts.values():
        if name in (host.name, str(host.id)):
            return host
    raise OnePreemptError(
        f"there is no host {printable(name, 80)!r}, or this user may not see it: one-preempt host list"
    )


def _give(settings: Settings, hosts: Sequence[Host], goal: PowerGoal, now_s: int) -> None:
    with closing(open_made_store(settings)) as store:
        for host in hosts:
            store.order_power(PowerOrder(host.id, goal, now_s))
            click.echo(f"Host {printable(host.name)} is ordered {goal.value}.")
    answer = ask_daemon("wake", {}, settings.socket.path)
    if answer is None:
        click.echo(f"No daemon answers at {settings.socket.path}: the order waits for it.", err=True)
    elif not answer["ok"]:
        click.echo(f"The order waits for the daemon's next cycle: {printable(str(answer.get('error')), 300)}", err=True)


def _wait(settings: Settings, before: PowerView, hosts: Sequence[Host], order: PowerOrder) -> int:
    """Until all hosts are where `order` wants them, or will not be; the exit code."""
    rules, told, goal = before.rules, {host.id: "" for host in hosts}, order.goal
    there: set[int] = set()
    ends_at_s = time.monotonic() + rules.boot_timeout_s + rules.shutdown_timeout_s
    while time.monotonic() < ends_at_s:
        view = power_view(settings, {})
        phases = {host.id: _phase(view, host.id) for host in hosts}
        for host in hosts:
            if told[host.id] != phases[host.id].value and host.id not in view.orders:
                told[host.id] = phases[host.id].value
                was_on = "was on, and is " if host.id not in there and was_on_since(view, host.id, order) else ""
                click.echo(f"Host {printable(host.name)}: {was_on}{_told(settings, view, host)}")
        settled = [host_id for host_id in phases if host_id not in view.orders]
        # Who was there is: it may go on to something else while the others are waited for.
        there |= {one for one in settled if phases[one] is REACHED[goal] or was_on_since(view, one, order)}
        if len(there) == len(hosts):
            return 0
        waited_for = [host for host in hosts if host.id in settled and host.id not in there]
        lost = [host for host in waited_for if _comes_to_nothing(phases[host.id], goal)]
        if lost:
            _tell_why(settings, lost, order)
            return 1
        _pause()
    click.echo("The time to wait is over. What was begun goes on.", err=True)
    return 1


def _tell_why(settings: Settings, lost: Sequence[Host], order: PowerOrder) -> None:
    snapshot = open_reader(settings).read()
    view = power_view(settings, snapshot.hosts)
    for host in lost:
        why = why_to_nothing(view, snapshot, host.id, order)
        click.echo(f"Host {printable(host.name)} is not {order.goal.value}: {reason_shown([why], host.id)}", err=True)


def _phase(view: PowerView, host_id: int) -> PowerPhase:
    sequence = view.sequences.get(host_id)
    return PowerPhase.AWAKE if sequence is None else sequence.phase


def _told(settings: Settings, view: PowerView, host: Host) -> str:
    if _phase(view, host.id) is PowerPhase.AWAKE:
        # `host` was read before the order, and what slept then took no VMs: only as it is now tells whose it is.
        host = open_reader(settings).read().hosts.get(host.id, host)
    power, why = view.words(host)
    return f"{power or 'on'}{f' ({why})' if why else ''}"


def _comes_to_nothing(phase: PowerPhase, goal: PowerGoal) -> bool:
    """The order was taken, and this is not the way there."""
    back = (PowerPhase.AWAKE, PowerPhase.ENABLING) if goal is PowerGoal.OFF else (PowerPhase.ASLEEP,)
    return phase is PowerPhase.FAILED or phase in back


def _pause() -> None:
    time.sleep(LOOK_EVERY_S)
