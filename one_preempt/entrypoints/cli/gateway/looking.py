"""`gateway list` and `gateway show`: requests as the gateway has them, and their VMs as the zone has them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from one_preempt.entrypoints.cli.gateway.asking import account_in, asking, socket_option, told
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json, write_table
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import JsonValue, printable

COLUMNS = ("request", "asked", "user", "type", "VMs", "name", "state", "zone", "what there is to say")
KEYS = ("number", "opened_at_s", "user", "type", "size", "name", "state", "zone", "text")
LONGEST_SAID = 400
LONGEST_CELL = 60
SHOWN_VMS = 50


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Not the last 40 alone, but every one on record.")
@socket_option
@config_option
@json_option
def gateway_list(everything: bool, socket_path: Path | None, config_path: Path | None, as_json: bool) -> None:
    """List your last 40 requests, newest first; root and the gateway's user see those of all users."""
    ask = asking(config_path, socket_path)
    found: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    while True:
        answer = ask("list", **before)
        page = told(answer, "requests", list)
        found += page
        if not (everything and answer.get("more") and page):
            break
        before = {"before": int(page[-1]["number"])}
    if as_json:
        write_json(found)
        return
    title = f"{len(found)} {'request' if len(found) == 1 else 'requests'}"
    write_table(title, COLUMNS, map(_row, found))


def _row(request: dict[str, Any]) -> tuple[str, ...]:
    texts = {**request, "opened_at_s": when(request["opened_at_s"])}
    return tuple(printable(str(texts[key]), LONGEST_CELL) for key in KEYS)


@click.command("show")
@click.argument("number", metavar="NUMBER", type=click.IntRange(min=1))
@socket_option
@config_option
@json_option
def gateway_show(number: int, socket_path: Path | None, config_path: Path | None, as_json: bool) -> None:
    """Show a request: which zones were tried, what they said, and how its VMs are now."""
    request: dict[str, Any] = told(asking(config_path, socket_path)("show", request=number), "request", dict)
    token, endpoint = request.pop("token"), request.get("endpoint")
    vms, trouble = _vms(request, endpoint, token)
    if as_json:
        write_json({**request, "vms": vms})
        if trouble:
            click.echo(printable(trouble, LONGEST_SAID), err=True)
        return
    _tell(request, vms, trouble)


def _vms(request: dict[str, Any], endpoint: object, token: str) -> tuple[list[dict[str, JsonValue]] | None, str]:
    """Its VMs that are not DONE, as the caller sees them in the zone; None with the reason where that is not known."""
    if not request["zone"] or request["state"] in ("refused", "abandoned"):
        return [], ""
    from one_preempt.adapters.opennebula.owner_account import VISIBLE
    from one_preempt.adapters.opennebula.owner_template import SUBMISSION
    from one_preempt.core.lease_status import status_of

    try:
        with account_in(str(request["zone"]), endpoint) as account:
            found = account.vms([], VISIBLE).values()
    except OnePreemptError as error:
        return None, f"how its VMs are is not known: {error}"
    return [
        {"id": vm.id, "name": vm.name, "state": vm.state_name, "lease_status": status_of(vm)}
        for vm in found
        if vm.user_template.get(SUBMISSION) == (token,)
    ], ""


def _tell(request: dict[str, Any], vms: list[dict[str, JsonValue]] | None, trouble: str) -> None:
    for name, text in (
        ("request", request["number"]),
        ("asked", f"{when(request['opened_at_s'])} by {request['user']}"),
        ("lease", f"{request['size']} x {request['type']} {request['name']}".rstrip()),
        ("state", f"{request['state']}{': ' if request['text'] else ''}{request['text']}"),
        ("zone", f"{request['zone']} {request.get('endpoint') or ''}".rstrip()),
    ):
        click.echo(f"{name:8}  {printable(str(text), LONGEST_SAID)}")
    for attempt in request["attempts"]:
        outcome = attempt["outcome"] or "no outcome yet"
        said = f"{attempt['zone']} from {when(attempt['begun_at_s'])} ({attempt['why']}): {outcome} {attempt['text']}"
        click.echo(f"{'tried':8}  {printable(said.rstrip(), LONGEST_SAID)}")
    if vms is None:
        click.echo(printable(trouble, LONGEST_SAID), err=True)
        return
    for vm in vms[:SHOWN_VMS]:
        said = f"{vm['id']} {vm['name']}, {vm['state']} {vm['lease_status']}"
        click.echo(f"{'VM':8}  {printable(said.rstrip(), LONGEST_SAID)}")
    if len(vms) > SHOWN_VMS:
        click.echo(f"{'':8}  and {len(vms) - SHOWN_VMS} more; --json shows all")


def when(at_s: object) -> str:
    """An instant for people, in UTC."""
    return datetime.fromtimestamp(int(str(at_s)), UTC).strftime("%Y-%m-%d %H:%M:%SZ")
