"""`gateway rates`: the shares in force, or what every policy would give each zone, and why."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import msgspec

from one_preempt.adapters.clock import SystemClock
from one_preempt.adapters.lease_store.named_database import DatabaseNotMade
from one_preempt.configuration.settings import Settings, load_settings
from one_preempt.core.gateway.requests import GatewayRequest
from one_preempt.core.gateway.shares import Allocation, Answer, NoShares, Question, ZoneLoad, asked
from one_preempt.core.gateway.streams import Stream, ZoneMeasure
from one_preempt.core.gateway.vm_runs import SECONDS_PER_HOUR
from one_preempt.entrypoints.cli.gateway.looking import when
from one_preempt.entrypoints.cli.options import config_option, json_option, write_json, write_table
from one_preempt.errors import OnePreemptError
from one_preempt.explanation.explain import printable
from one_preempt.gateway.measuring import MeasuringRules, looked, question, shares
from one_preempt.gateway_composition import measuring_rules, open_gateway_ledger, open_zones
from one_preempt.policy_registry import ALLOCATION_POLICIES

LONGEST_SAID = 300
NO_ANSWER = "-"


class Known(msgspec.Struct, frozen=True):
    """What is known: the question to the policies, what they answer, what is in force."""

    question: Question
    answers: tuple[Answer, ...]
    in_force: Allocation | None
    would_be: Allocation | None
    why_none: str
    problems: tuple[str, ...]


@click.command("rates")
@click.option("--explain", is_flag=True, help="Measure the zones now, and ask every policy; nothing is changed by it.")
@config_option
@json_option
def gateway_rates(explain: bool, config_path: Path | None, as_json: bool) -> int:
    """Show which part of the requests each zone gets, and from what; for the administrator.

    Without --explain: the shares in use, as measured last. The exit code is 1 if no zone can be given a share.
    """
    settings = load_settings(config_path)
    if not settings.gateway.zones:
        raise OnePreemptError("there is no gateway: name its zones in gateway.zones of the configuration")
    known = _known(settings, afresh=explain)
    if as_json:
        write_json(_document(known, explain))
    else:
        _tell(known, explain)
    return int(known.would_be is None and (explain or known.in_force is None))


def _known(settings: Settings, *, afresh: bool) -> Known:
    now_s, rules = SystemClock().now_s(), measuring_rules(settings)
    tokens: Mapping[str, int] = {}
    measures: dict[str, ZoneMeasure] = {}
    requests: tuple[GatewayRequest, ...] = ()
    in_force: Allocation | None = None
    problems: list[str] = []
    try:
        with closing(open_gateway_ledger(settings, makes=False)) as ledger:
            tokens, in_force = ledger.tokens(), ledger.allocation()
            measures = dict(ledger.measures())
            requests = tuple(ledger.opened_since(now_s - rules.window_s))
    except DatabaseNotMade:
        problems.append("there is no ledger yet: gateway run makes it when it starts")
    away = _measured_now(settings, rules, tokens, measures, now_s, problems) if afresh else {}
    put = question(measures, away, requests, rules, now_s)
    answers = tuple(asked(policy, put, rules.full_zones) for policy in ALLOCATION_POLICIES.all().values())
    try:
        return Known(put, answers, in_force, shares(put, rules, now_s), "", tuple(problems))
    except NoShares as error:
        return Known(put, answers, in_force, None, str(error), tuple(problems))


def _measured_now(
    settings: Settings,
    rules: MeasuringRules,
    tokens: Mapping[str, int],
    measures: dict[str, ZoneMeasure],
    now_s: int,
    problems: list[str],
) -> dict[str, str]:
    """Put what zones are like now into `measures`; why those have none that do not answer."""
    away: dict[str, str] = {}
    with open_zones(settings) as zones:
        for name, watcher in zones.items():
            former = measures.pop(name, None)
            try:
                look = looked(name, watcher.seen(now_s - rules.window_s), tokens, rules, now_s, former)
            except OnePreemptError as error:
                away[name] = str(error)
                continue
            measures[name] = look.measure
            problems.extend(f"zone {name}: {problem}" for problem in look.problems)
    return away


def _tell(known: Known, explain: bool) -> None:
    for problem in known.problems:
        click.echo(printable(problem, LONGEST_SAID), err=True)
    write_table("Zones", ZONE_COLUMNS, [_zone_row(known.question, zone) for zone in known.question.zones])
    external = known.question.external
    click.echo(f"external requests: {_stream(external)}")
    if explain:
        names = [zone.name for zone in known.question.zones]
        columns = ("policy", *names, "mean response", "why")
        write_table("What each policy would give", columns, [_answer_row(answer, names) for answer in known.answers])
        _tell_allocation("would be in force", known.would_be, known.why_none)
    else:
        _tell_allocation("in force", known.in_force, "nothing is in force yet: gateway run has not computed any shares")


ZONE_COLUMNS = (
    "zone", "elements", "of them standing", "speed", "local requests/h", "mean work h", "taken by them", "measured",
)  # fmt: skip


def _zone_row(put: Question, zone: ZoneLoad) -> tuple[str, ...]:
    if zone.measure is None or zone.local is None:
        return (printable(zone.name), *(NO_ANSWER,) * 6, printable(put.why_unusable(zone), LONGEST_SAID))
    measure, local = zone.measure, zone.local
    return (
        printable(zone.name),
        f"{measure.elements:g}",
        f"{measure.standing:.3g}",
        f"{zone.speed:.3g}",
        f"{local.rate_per_s * SECONDS_PER_HOUR:.3g}",
        NO_ANSWER if local.mean_work is None else f"{local.mean_work / SECONDS_PER_HOUR:.3g}",
        _taken(zone),
        f"{when(measure.measured_at_s)}: {local.known_from}" + (f"; {why}" if (why := put.why_unusable(zone)) else ""),
    )


def _taken(zone: ZoneLoad) -> str:
    """rho: which part of what comes free its own users ask for."""
    if not zone.free_elements or zone.local is None:
        return NO_ANSWER
    return f"{zone.local.rate_per_s * (zone.local.mean_work or 0.0) / zone.free_elements:.1%}"


def _stream(stream: Stream) -> str:
    work = NO_ANSWER if stream.mean_work is None else f"{stream.mean_work / SECONDS_PER_HOUR:.3g} h of one element each"
    return f"{stream.rate_per_s * SECONDS_PER_HOUR:.3g} an hour, {work} ({stream.known_from})"


def _answer_row(answer: Answer, names: list[str]) -> tuple[str, ...]:
    why = "; ".join(
        filter(None, [answer.why_not, *(f"without {zone}: {why}" for zone, why in answer.left_out.items())])
    )
    parts = (f"{answer.shares[name]:.1%}" if name in answer.shares else NO_ANSWER for name in names)
    response = answer.mean_response_s
    told = NO_ANSWER if response is None else "without end" if response == float("inf") else f"{response:.0f} s"
    return (answer.policy, *parts, told, printable(why, LONGEST_SAID))


def _tell_allocation(what: str, allocation: Allocation | None, otherwise: str) -> None:
    if allocation is None:
        click.echo(printable(f"{what}: {otherwise}", LONGEST_SAID))
        return
    told = ", ".join(f"{printable(zone)} {share:.1%}" for zone, share in allocation.answer.shares.items())
    click.echo(f"{what}: {told}, by {allocation.answer.policy}, computed {when(allocation.made_at_s)}")
    if allocation.instead_of:
        click.echo(printable(allocation.instead_of, LONGEST_SAID))
    for zone, why in (*allocation.unmeasured.items(), *allocation.answer.left_out.items()):
        click.echo(printable(f"without a share: {zone}, {why}", LONGEST_SAID))


def _document(known: Known, explain: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "zones": [
            {"name": zone.name, "speed": zone.speed, "free_elements": zone.free_elements}
            | {"measure": msgspec.to_builtins(zone.measure), "local": msgspec.to_builtins(zone.local)}
            | {"why_not": known.question.why_unusable(zone)}
            for zone in known.question.zones
        ],
        "external": msgspec.to_builtins(known.question.external),
        "in_force": _with_finite(known.in_force),
        "problems": list(known.problems),
    }
    if explain:
        document["policies"] = [_finite(msgspec.to_builtins(answer)) for answer in known.answers]
        document["would_be"] = _with_finite(known.would_be)
        document["why_none"] = known.why_none
    return document


def _with_finite(allocation: Allocation | None) -> dict[str, Any] | None:
    if allocation is None:
        return None
    document: dict[str, Any] = msgspec.to_builtins(allocation)
    return document | {"answer": _finite(document["answer"])}


def _finite(answer: dict[str, Any]) -> dict[str, Any]:
    """JSON has no word for a queue without end."""
    return answer | {
        "mean_response_s": None if answer["mean_response_s"] == float("inf") else answer["mean_response_s"]
    }
