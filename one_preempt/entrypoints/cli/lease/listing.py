"""`lease list`: all leases for the administrator, their own for everybody else; as a table, a document or a chart."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.composition import open_made_store
from one_preempt.configuration.settings import Settings
from one_preempt.entrypoints.cli.lease.bars import own_bars, recorded_bars
from one_preempt.entrypoints.cli.lease.chart import draw_chart, gantt_option, hours_option
from one_preempt.entrypoints.cli.lease.own_leases import own_leases
from one_preempt.entrypoints.cli.lease.own_story import LIST_COLUMNS as OWN_COLUMNS
from one_preempt.entrypoints.cli.lease.own_story import own_document, own_row
from one_preempt.entrypoints.cli.lease.owner_names import owner_names
from one_preempt.entrypoints.cli.lease.story import LIST_COLUMNS, lease_document, list_row
from one_preempt.entrypoints.cli.lease.view import administrators_settings, mine_option, own_account
from one_preempt.entrypoints.cli.options import (
    config_option,
    json_option,
    table_width,
    used_columns,
    write_json,
    write_table,
)
from one_preempt.explanation.explain import printable

# Of a narrower terminal the other columns take all there is.
WIDTH_WITH_ARRIVALS = 100


@click.command("list", short_help="List the leases, or draw them as a chart.")
@config_option
@mine_option
@click.option("--all", "include_ended", is_flag=True, help="Also leases that have ended; for administrators only.")
@gantt_option
@hours_option
@json_option
def lease_list(
    config_path: Path | None, mine: bool, include_ended: bool, as_chart: bool, hours: int, as_json: bool
) -> None:
    """List the leases, oldest first; with --gantt as a chart of the coming day."""
    if as_chart and as_json:
        raise click.UsageError("--gantt and --json do not go together: leave one of them out")
    if as_chart and include_ended:
        raise click.UsageError("--gantt shows the future, and --all adds leases that have ended: leave one of them out")
    settings = administrators_settings(config_path, mine)
    if settings is None and include_ended:
        raise click.UsageError("--all lists ended leases, which only the daemon's database knows: leave it out")
    if settings is not None:
        _list_recorded(settings, include_ended, hours if as_chart else None, as_json)
    else:
        _list_own(hours if as_chart else None, as_json)


def _list_recorded(settings: Settings, include_ended: bool, chart_hours: int | None, as_json: bool) -> None:
    now_s = SystemClock().now_s()
    with closing(open_made_store(settings)) as store:
        records = store.leases(include_ended and chart_hours is None)
        ledger = store.load(now_s)
    states = ledger.vm_states
    if chart_hours is not None:
        draw_chart(recorded_bars(records, ledger.reservations, now_s), now_s, chart_hours)
        return
    names = owner_names(settings, records)
    if as_json:
        write_json([lease_document(record, states, names) for record in records])
    else:
        title = f"{len(records)} {'lease' if len(records) == 1 else 'leases'} on record"
        has_room = table_width() >= WIDTH_WITH_ARRIVALS
        rows = (list_row(record, states, names, with_arrival=has_room) for record in records)
        write_table(title, *used_columns(LIST_COLUMNS, rows))


def _list_own(chart_hours: int | None, as_json: bool) -> None:
    problems: list[str] = []
    with own_account() as account:
        leases = own_leases(account.vms(problems).values())
    for problem in problems:
        click.echo(printable(problem), err=True)
    if chart_hours is not None:
        now_s = SystemClock().now_s()
        draw_chart(own_bars(leases, now_s), now_s, chart_hours)
    elif as_json:
        write_json([own_document(lease) for lease in leases])
    else:
        title = f"{len(leases)} {'lease' if len(leases) == 1 else 'leases'} of yours"
        write_table(title, *used_columns(OWN_COLUMNS, map(own_row, leases)))
