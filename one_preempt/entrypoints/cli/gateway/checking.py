"""`gateway check`: is everything set up as the gateway needs it? One line a question, with the mend where it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

import click

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.daemon_socket.gateway_client import ask_gateway
from one_preempt.adapters.lease_store.named_database import DatabaseNotMade
from one_preempt.adapters.opennebula.oned_errors import OnedError
from one_preempt.adapters.opennebula.pool_reader import OpenNebulaPoolReader
from one_preempt.adapters.opennebula.transport import without_secrets
from one_preempt.adapters.opennebula.zone_watcher import OpenNebulaZone, endpoints_of_zones
from one_preempt.composition import open_transport
from one_preempt.configuration.gateway_settings import ZoneSettings
from one_preempt.configuration.settings import Settings, load_settings
from one_preempt.core.gateway.vm_runs import SECONDS_PER_HOUR
from one_preempt.entrypoints.cli.check import OWN_USER, told
from one_preempt.entrypoints.cli.gateway.who_may_run import judge_users
from one_preempt.entrypoints.cli.options import config_option, json_option
from one_preempt.entrypoints.cli.set_up import Finding, Grade, judge_rights
from one_preempt.errors import OnePreemptError
from one_preempt.gateway.measuring import OFFLINE_UNCOUNTED
from one_preempt.gateway.zones_taken_out import MEND_OF_LEFT, left_in_zones
from one_preempt.gateway_composition import open_gateway_ledger, open_zone_transport
from one_preempt.gateway_ports import AnotherZone

LATE_TIMES = 3
"""Shares that were not computed anew for so many intervals are late."""


@click.command("check")
@config_option
@json_option
def gateway_check(config_path: Path | None, as_json: bool) -> int:
    """Look for what is wrong with the gateway: configuration, zones, rights there, ledger, socket.

    Nothing is changed anywhere. Exit code 1 where something cannot work.
    """
    return told(list(_findings(config_path)), as_json=as_json)


def _findings(config_path: Path | None) -> Iterator[Finding]:
    try:
        settings = load_settings(config_path)
    except OnePreemptError as error:
        yield Finding("configuration", Grade.FAIL, str(error))
        return
    if not settings.gateway.zones:
        yield Finding(
            "configuration", Grade.FAIL, "gateway.zones is empty: there is no gateway", "name the zones there"
        )
        return
    yield Finding("configuration", Grade.OK, f"{len(settings.gateway.zones)} zones")
    federation, found = _federation(settings)
    yield found
    for zone in settings.gateway.zones:
        yield from _zone_findings(settings, zone, federation)
    yield _judge_ledger(settings)
    yield from _judge_zones_taken_out(settings)
    yield _judge_socket(settings, federation)


def _federation(settings: Settings) -> tuple[Mapping[str, str] | None, Finding]:
    """Where the zones of the federation are, by name; None where it does not answer."""
    needed = any(zone.endpoint is None for zone in settings.gateway.zones)
    try:
        with closing(open_transport(settings)) as transport:
            known = endpoints_of_zones(transport)
    except OnePreemptError as error:
        mend = "mend that, or write an endpoint for every zone"
        return None, Finding("federation", Grade.FAIL if needed else Grade.WARN, str(error), mend)
    return known, Finding("federation", Grade.OK, f"has the zones {', '.join(sorted(known)) or 'none'}")


def _zone_findings(settings: Settings, zone: ZoneSettings, federation: Mapping[str, str] | None) -> Iterator[Finding]:
    subject = f"zone {zone.name}"
    endpoint = _endpoint(zone, federation)
    if endpoint is None and federation is None:
        yield Finding(subject, Grade.FAIL, "its address is not known, because the federation does not answer")
        return
    if endpoint is None:
        mend = "correct its name in gateway.zones, or write its endpoint there"
        yield Finding(subject, Grade.FAIL, "the federation does not know it", mend)
        return
    if federation and zone.name not in federation and len(federation) > 1:
        yield Finding(
            subject, Grade.WARN, "the federation has no zone of this name", "is it meant to be another cloud?"
        )
    try:
        yield from _findings_there(settings, zone, endpoint)
    except OnedError as error:
        yield Finding(subject, Grade.FAIL, f"{endpoint}: {error}", "check its auth_file and that user")
    except AnotherZone as error:
        yield Finding(subject, Grade.FAIL, str(error))
    except OnePreemptError as error:
        yield Finding(subject, Grade.FAIL, str(error), "meanwhile no request is sent there")


def _findings_there(settings: Settings, zone: ZoneSettings, endpoint: str) -> Iterator[Finding]:
    """What the zone itself tells. Raises `OnePreemptError` where it does not answer, or not to this user."""
    subject, window_h = f"zone {zone.name}", settings.gateway.window_h
    with closing(open_zone_transport(settings, endpoint, zone.auth_file)) as transport:
        user = transport.document("one.user.info", OWN_USER)
        yield Finding(subject, Grade.OK, f"{transport.endpoint} answers")
        rights = judge_rights(user)
        yield Finding(subject, rights.grade, rights.text, rights.mend)
        seen = OpenNebulaZone(transport, zone.name).seen(SystemClock().now_s() - window_h * SECONDS_PER_HOUR)
        # A zone that is disabled does not tell its rules.
        judged = bool(seen.hosts) and rights.grade is Grade.OK
        snapshot = OpenNebulaPoolReader(transport, SystemClock()).read() if judged else None
    has_share = bool(seen.hosts) or (zone.elements is not None and not seen.is_disabled)
    told = f"{len(seen.hosts)} hosts take VMs; {len(seen.runs)} VMs ran within {window_h} h"
    mend = "" if has_share or seen.is_disabled else "enable hosts there: it gets no share"
    yield Finding(subject, Grade.OK if has_share else Grade.WARN, told, mend)
    if seen.hosts_offline and zone.elements is None:
        yield Finding(subject, Grade.WARN, f"{seen.hosts_offline} hosts are OFFLINE", OFFLINE_UNCOUNTED)
    for problem in seen.problems:
        yield Finding(subject, Grade.WARN, problem, "it is left out of all figures" if seen.hosts else "")
    if snapshot is not None:
        yield judge_users(subject, snapshot)


def _endpoint(zone: ZoneSettings, federation: Mapping[str, str] | None) -> str | None:
    """Where a zone is by the configuration or the federation."""
    return zone.endpoint or (federation or {}).get(zone.name)


def _judge_ledger(settings: Settings) -> Finding:
    try:
        with closing(open_gateway_ledger(settings, makes=False)) as ledger:
            allocation = ledger.allocation()
    except DatabaseNotMade:
        return Finding("ledger", Grade.WARN, "there is none yet", "it is made when one-preempt gateway run starts")
    except OnePreemptError as error:
        return Finding("ledger", Grade.FAIL, str(error))
    if allocation is None:
        return Finding(
            "ledger", Grade.WARN, "no shares were computed yet", "until then zones take turns in their order"
        )
    age_s = SystemClock().now_s() - allocation.made_at_s
    if age_s > LATE_TIMES * settings.gateway.recompute_s:
        return Finding("ledger", Grade.WARN, f"the shares are {age_s} s old", "does one-preempt gateway run?")
    if allocation.instead_of:
        # Of requests that came since it tells nothing.
        text = f"when the shares were computed, {age_s} s ago, {allocation.instead_of}"
        return Finding("ledger", Grade.WARN, text, f"{allocation.answer.policy} answers instead")
    return Finding("ledger", Grade.OK, f"shares by {allocation.answer.policy}, {age_s} s old")


def _judge_zones_taken_out(settings: Settings) -> Iterator[Finding]:
    configured = [zone.name for zone in settings.gateway.zones]
    with suppress(OnePreemptError), closing(open_gateway_ledger(settings, makes=False)) as ledger:
        for zone, requests in left_in_zones(ledger, configured).items():
            text = f"it is not configured any more, and {len(requests)} requests are left there"
            yield Finding(f"zone {zone}", Grade.WARN, text, MEND_OF_LEFT)


def _judge_socket(settings: Settings, federation: Mapping[str, str] | None) -> Finding:
    try:
        answer = ask_gateway(settings.gateway.socket, "status", {}, 2.0)
    except OnePreemptError as error:
        return Finding("gateway", Grade.WARN, str(error), "start one-preempt gateway run")
    configured = [zone.name for zone in settings.gateway.zones]
    if answer.get("zones") != configured:
        return Finding("gateway", Grade.WARN, "it runs with other zones than are configured", "restart it")
    used = answer.get("endpoints")
    for zone in settings.gateway.zones:
        endpoint = _endpoint(zone, federation)
        if endpoint is None or not isinstance(used, dict) or used.get(zone.name) == without_secrets(endpoint):
            continue
        moved = f"requests for zone {zone.name} go to {used.get(zone.name)}, and it is at {without_secrets(endpoint)}"
        return Finding("gateway", Grade.WARN, moved, "restart it: it asks where zones are when it starts")
    return Finding("gateway", Grade.OK, f"answers at {settings.gateway.socket}")
