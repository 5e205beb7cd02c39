"""`host list`: the hosts as the scheduler counts them."""

from __future__ import annotations

from pathlib import Path

import click

from one_preempt.composition import open_reader
from one_preempt.core.model.host import Host
from one_preempt.entrypoints.cli.options import config_option, json_option, source_option, write_json, write_table
from one_preempt.explain import JsonObject, printable
from one_preempt.settings import load_settings

MIB_PER_GIB = 1024


@click.group("host")
def host_command() -> None:
    """Look at the hosts."""


@host_command.command("list")
@config_option
@source_option
@json_option
def host_list(config_path: Path | None, source: Path | None, as_json: bool) -> None:
    """List the hosts with what is free on them by oned's accounting."""
    snapshot = open_reader(load_settings(config_path), source).read()
    hosts = [snapshot.hosts[host_id] for host_id in sorted(snapshot.hosts)]
    if as_json:
        write_json([document(host) for host in hosts])
    else:
        columns = ("id", "name", "cluster", "state", "CPU free/all", "GiB free/all", "VMs", "")
        write_table(f"{len(hosts)} hosts", columns, map(row, hosts))


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
