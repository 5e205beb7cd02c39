"""`host energy`: what the hosts that are handed over took, and what had been taken with all of them on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import reduce
from pathlib import Path

import click
from msgspec import Struct

from one_preempt.adapters.clock import SystemClock
from one_preempt.composition import open_made_store
from one_preempt.configuration.chosen_policies import power_rules
from one_preempt.configuration.settings import Settings, load_settings
from one_preempt.core.energy.energy_account import EnergyAccount, accounts, added
from one_preempt.core.model.written_time import utc_text
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json, write_table
from one_preempt.explanation.explain import JsonObject, printable

DAY_S = 86_400
HOUR_S = 3600
DAYS = 30
NO_POLICY = "(nothing enforced)"


class EnergyReport(Struct, frozen=True):
    """What was counted between two instants, by policy and host.

    `begins_s`: nothing is known of what was before; None where all of the time is known.
    """

    from_s: int
    until_s: int
    accounts: tuple[EnergyAccount, ...]
    begins_s: int | None = None

    @property
    def by_policy(self) -> dict[str, list[EnergyAccount]]:
        """The accounts of the hosts under each policy."""
        found: dict[str, list[EnergyAccount]] = {}
        for account in self.accounts:
            found.setdefault(account.policy, []).append(account)
        return found


@click.command("energy", short_help="Show the energy used and saved.")
@config_option
@click.option("--days", type=click.IntRange(1, 36_500), help=f"How many days back from now; {DAYS} if not given.")
@click.option("--all", "everything", is_flag=True, help="From the beginning, including what was deleted from the log.")
@click.option("--hosts", "by_host", is_flag=True, help="Add a row for each host.")
@json_option
def host_energy(config_path: Path | None, days: int | None, everything: bool, by_host: bool, as_json: bool) -> None:
    """Show how much energy the hosts handed over have used, and how much switching them has saved.

    It is computed from the times for which they were on, booting, shutting down and off, and the watts of `power.model`
    and `power.models`. What is saved is relative to the same load with all of them always on.
    """
    if everything and days is not None:
        raise click.UsageError("--all is from the beginning: leave --days out")
    settings = load_settings(config_path)
    report = energy_report(settings, SystemClock().now_s(), None if everything else DAY_S * (days or DAYS))
    if as_json:
        write_json(document(report))
    else:
        show(report, by_host)


def energy_report(settings: Settings, now_s: int, span_s: int | None) -> EnergyReport:
    """The last `span_s` seconds before an instant; None: all that is known, with what was pruned."""
    with closing(open_made_store(settings)) as store:
        # Of the future nothing is known, but a clock may have been set back.
        stays = store.host_use(0 if span_s is None else now_s - span_s, now_s)
        totals = store.host_use_totals() if span_s is None else ()
    beginnings = [*(stay.since_s for stay in stays), *(total.first_s for total in totals)]
    known_s = min(beginnings, default=now_s)
    from_s = known_s if span_s is None else now_s - span_s
    found = accounts(stays, totals, power_rules(settings.power).power_named, from_s, now_s)
    return EnergyReport(from_s, now_s, found, known_s if found and known_s > from_s else None)


def document(report: EnergyReport) -> JsonObject:
    """The report as plain objects; instants in seconds since the epoch."""
    return {
        "from": report.from_s,
        "until": report.until_s,
        "history_begins": report.begins_s,
        "policies": [
            {"policy": policy or None, "hosts": len({one.host_id for one in found}), **_figures(_sum(found))}
            for policy, found in report.by_policy.items()
        ],
        "total": {"hosts": len({one.host_id for one in report.accounts}), **_figures(_sum(report.accounts))},
        "hosts": [
            {"id": one.host_id, "name": one.host_name, "policy": one.policy or None, **_figures(one)}
            for one in report.accounts
        ],
    }


def _figures(account: EnergyAccount) -> JsonObject:
    return {
        "taken_kwh": round(account.taken_kwh, 6),
        "always_on_kwh": round(account.always_on_kwh, 6),
        "saved_kwh": round(account.saved_kwh, 6),
        "saved_share": round(account.saved_share, 6),
        "boots": account.boots,
        "counted_s": account.counted_s,
        "on_s": account.on_s,
        "coming_s": account.coming_s,
        "off_s": account.off_s,
        "failed_s": account.failed_s,
    }


def _sum(found: Sequence[EnergyAccount]) -> EnergyAccount:
    return reduce(added, found, EnergyAccount(-1, "", ""))


def show(report: EnergyReport, by_host: bool) -> None:
    """The report for people."""
    title = f"Energy of the hosts handed over, {utc_text(report.from_s)} to {utc_text(report.until_s)}"
    if not report.accounts:
        click.echo(f"{title}: nothing was counted. Hosts are handed over by power.hosts.")
        return
    figures = ("host hours", "of them off", "boots", "kWh", "kWh always on", "kWh saved", "%")
    rows = [
        (policy or NO_POLICY, str(len({one.host_id for one in found})), *_cells(_sum(found)))
        for policy, found in report.by_policy.items()
    ]
    if len(rows) > 1:
        hosts = {one.host_id for one in report.accounts}
        rows.append(("all together", str(len(hosts)), *_cells(_sum(report.accounts))))
    write_table(title, ("policy", "hosts", *figures), rows)
    if report.begins_s is not None:
        click.echo(f"Nothing is known from before {utc_text(report.begins_s)}, except what --all adds.")
    if by_host:
        write_table("By host", ("host", "policy", *figures), _host_rows(report.accounts))


def _host_rows(found: Iterable[EnergyAccount]) -> Iterable[tuple[str, ...]]:
    for one in sorted(found, key=lambda one: (one.host_id, one.policy)):
        yield printable(one.host_name, 40), one.policy or NO_POLICY, *_cells(one)


def _cells(account: EnergyAccount) -> tuple[str, ...]:
    return (
        f"{account.counted_s / HOUR_S:.1f}",
        f"{account.off_s / HOUR_S:.1f}",
        str(account.boots),
        f"{account.taken_kwh:.2f}",
        f"{account.always_on_kwh:.2f}",
        f"{account.saved_kwh:.2f}",
        f"{100 * account.saved_share:.1f}",
    )
